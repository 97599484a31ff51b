import type { OutgoingHttpHeaders } from 'node:http'
import type { Lease } from '../balancer/lease.ts'
import { forwardableResponseHeaders } from '../http/header-fields.ts'
import type { KeyRequest } from '../key/key-source.ts'
import { topologyHeaderNames } from '../topology-headers.ts'
import type { Attempt, UpstreamResponse } from '../transport/transport.ts'
import type { Ending } from './client.ts'
import type { Gateway } from './gateway.ts'
import { applyHook } from './hooks.ts'
import type { PreparedRequest } from './prepare.ts'
import { relayBody, writeHead } from './respond.ts'
import { newerTopology } from './topology-stamp.ts'

/** Passes an upstream's answer on to the client, and tells its breaker how that ended. */
export async function passOn(
  gateway: Gateway,
  prepared: PreparedRequest,
  lease: Lease,
  attempt: number,
  { sent, response }: { sent: Attempt; response: UpstreamResponse },
): Promise<Ending> {
  const { config } = gateway
  const { client, body, position, head } = prepared
  const upstream = lease.spec.id
  const headers = answerHeaders(gateway, head.request, lease, attempt, response)
  client.answering()
  writeHead(client.response, response.status, response.statusText, headers)
  lease.responding()
  const outcome = await relayBody(response, client.response, {
    clock: config.clock,
    idleMs: config.timeouts.idleMs,
    uploaded: () => body?.received ?? 0,
  })
  if (body && !body.finished) {
    sent.abort()
    if (!client.gone) body.discard()
  }
  switch (outcome) {
    case 'complete':
      lease.succeeded()
      return { status: response.status, outcome: 'answered', upstream }
    case 'client-gone':
      sent.abort()
      return client.left(upstream)
    default:
      lease.failed(outcome === 'idle' ? 'timeout' : 'reset', position)
      return { status: response.status, outcome: 'broken', upstream }
  }
}

/** The headers of an upstream's answer as the client gets them, by lower-case name. */
export function answerHeaders(
  { config, refresher }: Gateway,
  request: KeyRequest,
  lease: Lease,
  attempt: number,
  { status, rawHeaders }: Pick<UpstreamResponse, 'status' | 'rawHeaders'>,
): OutgoingHttpHeaders {
  const newer = newerTopology(rawHeaders, lease.placement)
  if (newer && newer.digest !== lease.placement.ring.digest) void refresher.followUp(lease, 'newer-revision')
  const headers: OutgoingHttpHeaders = Object.create(null)
  for (const [name, values] of forwardableResponseHeaders(rawHeaders, topologyHeaderNames)) {
    headers[name.toLowerCase()] = values.length === 1 ? values[0] : [...values]
  }
  if (config.exposeUpstreamId) headers['x-upstream-id'] = encodeURI(lease.spec.id)
  const { onResponse } = config
  return applyHook(
    headers,
    onResponse && ((headers) => onResponse({ request, upstream: lease.spec, attempt, status, headers })),
  )
}
