import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http'
import type { Lease } from '../balancer/lease.ts'
import type { Config } from '../config.ts'
import type { BodyPlan } from '../http/consumed-body.ts'
import { forwardedHeaders } from '../http/forwarded.ts'
import { forwardableRequestHeaders } from '../http/header-fields.ts'
import type { KeyRequest } from '../key/key-source.ts'
import { encodeAttempt, encodeKeyHash, topologyHeader, topologyHeaderNames } from '../topology-headers.ts'
import type { OutgoingRequest } from '../transport/transport.ts'
import type { Gateway } from './gateway.ts'
import { applyHook } from './hooks.ts'
import { ringOwnerValue, topologyValue } from './topology-stamp.ts'

/** How the gateway calls itself in `Via`. */
const pseudonym = 'consistent-hash-proxy'

/** What of a request is the same for all its attempts. */
export interface RequestHead {
  readonly request: KeyRequest
  readonly method: string
  /** Path and query as the upstream shall see them, below its base path. */
  readonly path: string
  /** Those that differ from attempt to attempt are set anew for each. */
  readonly headers: OutgoingHttpHeaders
}

/** Cleans a request's head once, for all its attempts. `path`: the request target below the mount point. */
export function requestHead(
  { config, trust, routingKey }: Gateway,
  request: KeyRequest,
  path: string,
  plan: BodyPlan,
): RequestHead {
  const headers = forwardableRequestHeaders(request, {
    protectedNames: routingKey.headerNames,
    gatewayNames: topologyHeaderNames,
  })
  const authority = authorityOf(request.url)
  if (authority !== undefined) headers.host = authority
  const trusted = trust.isTrustedPeer(request)
  const forwarding = { trusted, headers: config.forwardedHeaders, pseudonym, authority }
  Object.assign(headers, forwardedHeaders(request, forwarding))
  frame(headers, request, plan)
  return {
    request,
    method: request.method ?? 'GET',
    path: config.rewritePath && path !== '*' ? checkedPath(config.rewritePath(path, request)) : path,
    headers,
  }
}

/** One attempt's request. What the gateway says of itself is written last: no hook can break it. */
export function outgoingRequest(
  head: RequestHead,
  lease: Lease,
  attempt: number,
  position: bigint,
  config: Config,
): OutgoingRequest {
  const { target } = lease.upstream
  if (config.hostHeader === 'upstream') head.headers.host = target.host
  const { onRequest } = config
  // A hook changes the headers of its own attempt.
  const headers = onRequest
    ? applyHook({ ...head.headers }, (headers) =>
        onRequest({ request: head.request, upstream: lease.spec, attempt, headers }),
      )
    : head.headers
  headers[topologyHeader.topology] = topologyValue(lease.placement)
  headers[topologyHeader.ringOwner] = ringOwnerValue(lease.owner)
  headers[topologyHeader.keyHash] = encodeKeyHash(position)
  headers[topologyHeader.attempt] = encodeAttempt(attempt)
  // RFC 9112 §3.2.4: `*` is the server as a whole, below no path.
  const path = head.path === '*' ? head.path : target.basePath + head.path
  return { target, method: head.method, path, headers }
}

/** The request target below the mount point, in origin form (RFC 9112 §3.2), otherwise byte for byte as it came. */
export function originForm(url: string | undefined): string {
  if (url === undefined || url === '') return '/'
  if (url.startsWith('/') || url === '*') return url
  const path = /^[a-z][a-z0-9+.-]*:\/\/[^/?#]*(.*)$/i.exec(url)?.[1] ?? `/${url}`
  return path.startsWith('/') ? path : `/${path}`
}

/** RFC 9112 §3.2.2: the authority of a target in absolute form counts, and the `Host` field does not. */
function authorityOf(url: string | undefined): string | undefined {
  if (url?.startsWith('/')) return undefined
  return /^[a-z][a-z0-9+.-]*:\/\/(?:[^/?#@]*@)?([^/?#@]+)/i.exec(url ?? '')?.[1]
}

/** RFC 9112 §6.3: how the upstream learns where the body ends. One way, and never both. */
function frame(headers: OutgoingHttpHeaders, request: IncomingMessage, plan: BodyPlan): void {
  switch (plan.kind) {
    case 'bytes':
      headers['content-length'] = String(plan.bytes.length)
      delete headers['content-encoding']
      if (plan.contentType !== undefined) headers['content-type'] = plan.contentType
      break
    case 'stream':
      if (headers['content-length'] === undefined) headers['transfer-encoding'] = 'chunked'
      break
    default:
      // RFC 9110 §8.6: methods that expect content say so when there is none.
      if (/^(?:POST|PUT|PATCH)$/.test(request.method ?? '')) headers['content-length'] = '0'
      else if (headers['content-length'] !== undefined) delete headers['content-length']
  }
}

/** What the operator's `rewritePath` gives goes on the wire as it is: it must not end the request line early. */
function checkedPath(path: unknown): string {
  if (typeof path === 'string' && /^\/[\x21-\xff]*$/.test(path)) return path
  throw new TypeError(
    `Expected rewritePath to return a path without white space, got ${JSON.stringify(path)}`,
  )
}
