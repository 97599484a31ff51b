import type { Lease } from '../balancer/lease.ts'
import type { Config } from '../config.ts'
import { forwardableTrailers } from '../http/header-fields.ts'
import { topologyHeaderNames } from '../topology-headers.ts'
import type { Attempt, AttemptTimeouts } from '../transport/transport.ts'
import type { Gateway } from './gateway.ts'
import { outgoingRequest } from './outgoing-head.ts'
import type { PreparedRequest } from './prepare.ts'
import { writeEarlyHints } from './respond.ts'

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
      trailers: () => forwardableTrailers(head.request.rawTrailers, topologyHeaderNames),
    },
    timeouts: { connectMs, firstByteMs, idleMs, totalMs: left },
    freshConnection,
    onInformation: (status, headers) => {
      // Only 103 is for the client; 100 has been answered, and 102 keeps nobody's connection alive here.
      if (status === 103) writeEarlyHints(client.request, client.response, headers)
    },
  })
  return {
    sent,
    cutShort: left < Math.max(connectMs, firstByteMs),
    waitedMs: () => (waitingSince === undefined ? 0 : clock.now() - waitingSince),
  }
}

function attemptTimeouts({ timeouts, retry }: Config): Omit<AttemptTimeouts, 'totalMs'> {
  const { connectMs, firstByteMs, idleMs } = timeouts
  return { connectMs, firstByteMs: Math.min(firstByteMs, retry.perTryTimeoutMs ?? firstByteMs), idleMs }
}
