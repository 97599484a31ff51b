import type { Lease } from '../balancer/lease.ts'
import { forwardableResponseHeaders } from '../http/header-fields.ts'
import { fromHeaderList, toHeaderList } from '../http/header-list.ts'
import type { KeyRequest } from '../key/key-source.ts'
import { topologyHeaderNames } from '../topology-headers.ts'
import type { Attempt, ResponseHead, UpstreamResponse } from '../transport/transport.ts'
import type { Ending } from './client.ts'
import type { Gateway } from './gateway.ts'
import { applyHook } from './hooks.ts'
import type { PreparedRequest } from './prepare.ts'
import { Relay, type RelayOutcome } from './relay.ts'
import { writeHead } from './respond.ts'
import { newerTopology } from './topology-stamp.ts'

/** Passes an upstream's answer on to the client, and tells its breaker how that ended. */
export function passOn(
  gateway: Gateway,
  prepared: PreparedRequest,
  lease: Lease,
  attempt: number,
  { sent, response }: { sent: Attempt; response: UpstreamResponse },
): Promise<Ending> {
  const { config, deadlines } = gateway
  const { client, body, head } = prepared
  const headers = answerHeaders(gateway, head.request, lease, attempt, response)
  client.answering()
  writeHead(client.response, response.status, response.statusText, headers)
  lease.responding()
  return new Promise((resolve) => {
    const limit = { deadlines, idleMs: config.timeouts.idleMs, uploaded: () => body?.received ?? 0 }
    const relay = new Relay(response, client.response, limit, (outcome) =>
      resolve(concluded(prepared, lease, sent, outcome, response.status)),
    )
    client.whenGone(() => relay.left())
    relay.start()
  })
}

/** Lets go of what the answer's end leaves behind, and tells the upstream's breaker of it. */
function concluded(
  { client, body, position }: PreparedRequest,
  lease: Lease,
  sent: Attempt,
  outcome: RelayOutcome,
  status: number,
): Ending {
  const upstream = lease.spec.id
  if (outcome !== 'complete' || (body && !body.finished)) sent.abort()
  if (body && !body.finished && !client.gone) body.discard()
  switch (outcome) {
    case 'complete':
      lease.succeeded()
      return { status, outcome: 'answered', upstream }
    case 'client-gone':
      return client.left(upstream)
    default:
      lease.failed(outcome === 'idle' ? 'timeout' : 'reset', position)
      return { status, outcome: 'broken', upstream }
  }
}

/** The headers of an upstream's answer as the client gets them, names and values in turn. */
export function answerHeaders(
  { config, refresher }: Gateway,
  request: KeyRequest,
  lease: Lease,
  attempt: number,
  { status, rawHeaders }: ResponseHead,
): string[] {
  const newer = newerTopology(rawHeaders, lease.placement)
  if (newer && newer.digest !== lease.placement.ring.digest) void refresher.followUp(lease, 'newer-revision')
  const headers = forwardableResponseHeaders(rawHeaders, topologyHeaderNames)
  const { onResponse, exposeUpstreamId } = config
  const exposed = exposeUpstreamId ? withoutHeader(headers, upstreamIdHeader) : headers
  if (exposeUpstreamId) exposed.push(upstreamIdHeader, encodeURI(lease.spec.id))
  if (!onResponse) return exposed
  return toHeaderList(
    applyHook(fromHeaderList(exposed), (headers) =>
      onResponse({ request, upstream: lease.spec, attempt, status, headers }),
    ),
  )
}

const upstreamIdHeader = 'x-upstream-id'

/** Without what an upstream says under a name of ours. */
function withoutHeader(headers: string[], name: string): string[] {
  const isIt = (field: string | undefined) => field?.toLowerCase() === name
  if (!headers.some((field, index) => index % 2 === 0 && isIt(field))) return headers
  return headers.filter((_, index) => !isIt(headers[index - (index % 2)]))
}
