import type { IncomingHttpHeaders } from 'node:http'
import type { Lease } from '../balancer/lease.ts'
import type { Config } from '../config.ts'
import type { Attempt, AttemptTimeouts } from '../transport/transport.ts'
import type { HttpClient } from './client.ts'
import type { Gateway } from './gateway.ts'
import { outgoingRequest } from './outgoing-head.ts'
import type { PreparedRequest } from './prepare.ts'

/** A request on its way to one upstream, with what has to be known to judge how it ends. */
export interface Sending {
  readonly sent: Attempt
  /** The deadline leaves it less time than an attempt may have otherwise. */
  readonly cutShort: boolean
  /** Milliseconds since the upstream has had the whole request; 0 until then. */
  waitedMs(): number
}

/** Sends a request to the upstream of `lease`. Throws what the operator's `onRequest` throws. */
export function send(
  { config, transport }: Gateway,
  { client, head, body, position, deadline }: PreparedRequest,
  lease: Lease,
  { attempt, freshConnection }: { attempt: number; freshConnection: boolean },
): Sending {
  const { clock } = config
  const left = Math.max(1, deadline - clock.now())
  const { connectMs, firstByteMs, idleMs } = attemptTimeouts(config)
  let waitingSince = body ? undefined : clock.now()
  const sent = transport.send(outgoingRequest(head, lease, attempt, position, config), {
    body: body && {
      open: () =>
        body.open().once('end', () => {
          waitingSince = clock.now()
        }),
      trailers: () => head.request.rawTrailers,
    },
    timeouts: { connectMs: Math.min(connectMs, left), firstByteMs: Math.min(firstByteMs, left), idleMs },
    freshConnection,
    onInformation: (status, headers) => passHintsOn(client, status, headers),
  })
  return {
    sent,
    cutShort: left < Math.max(connectMs, firstByteMs),
    waitedMs: () => (waitingSince === undefined ? 0 : clock.now() - waitingSince),
  }
}

function attemptTimeouts({ timeouts, retry }: Config): AttemptTimeouts {
  const { connectMs, firstByteMs, idleMs } = timeouts
  return { connectMs, firstByteMs: Math.min(firstByteMs, retry.perTryTimeoutMs ?? firstByteMs), idleMs }
}

/** Only 103 (RFC 8297) is for the client; 100 has been answered, and 102 keeps nobody's connection alive here. */
function passHintsOn({ response }: HttpClient, status: number, headers: IncomingHttpHeaders): void {
  if (status !== 103 || response.headersSent || response.destroyed || headers.link === undefined) return
  try {
    response.writeEarlyHints({ link: [headers.link].flat().join(', ') })
  } catch {
    // Node checks the form of a link; a hint that it does not like is no loss.
  }
}
