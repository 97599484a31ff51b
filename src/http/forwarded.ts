import type { IncomingMessage } from 'node:http'
import { isIPv6 } from 'node:net'
import type { ForwardedHeader } from '../options.ts'
import { peerAddress } from './client-address.ts'

export interface ForwardedOptions {
  /** Whether the peer's own word on its client is kept (`Trust.isTrustedPeer`). */
  readonly trusted: boolean
  /** Which of them the gateway writes. */
  readonly headers: readonly ForwardedHeader[]
  /** The gateway's name in `Via` (RFC 9110 §7.6.3 `received-by`). */
  readonly pseudonym: string
  /** Host and port that the client asked for; by default what its `Host` field says. */
  readonly authority?: string | undefined
}

/** Whether a header tells of the hops before us, by lower-case name: a client's word on it counts only under trust. */
export function isForwardedField(name: string): boolean {
  return name.startsWith('x-forwarded-') || name === 'forwarded' || name === 'via'
}

/**
 * The headers that tell the upstream who its client is and which way the request came: once per request, the same
 * for each attempt. A trusted peer's are kept and added to, anyone else's are left out. `Via` is no claim about the
 * client but how loops are noticed: it is always kept.
 */
export function forwardedHeaders(
  request: IncomingMessage,
  { trusted, headers, pseudonym, authority = request.headers.host }: ForwardedOptions,
): Record<string, string> {
  const fields = trusted ? receivedFields(request) : {}
  const { via } = request.headers
  if (via !== undefined) fields.via = via
  if (headers.includes('x-forwarded')) addXForwarded(fields, request, authority)
  if (headers.includes('forwarded')) fields.forwarded = append(fields.forwarded, element(request, authority))
  if (headers.includes('via')) fields.via = append(via, `${request.httpVersion} ${pseudonym}`)
  return fields
}

function receivedFields({ headers }: IncomingMessage): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers)
      .filter(([name]) => isForwardedField(name))
      .map(([name, value]) => [name, [value ?? []].flat().join(', ')]),
  )
}

/** The de-facto headers. A peer on a Unix socket has no address to add. */
function addXForwarded(
  fields: Record<string, string>,
  request: IncomingMessage,
  authority: string | undefined,
): void {
  const peer = peerAddress(request)
  const proto = fields['x-forwarded-proto'] ?? protocol(request)
  const host = fields['x-forwarded-host'] ?? authority
  if (peer !== 'unix') fields['x-forwarded-for'] = append(fields['x-forwarded-for'], peer)
  fields['x-forwarded-proto'] = proto
  if (host !== undefined) fields['x-forwarded-host'] = host
  fields['x-forwarded-port'] ??= portOf(host ?? '', proto)
}

/** RFC 7239 §4: this hop's element. */
function element(request: IncomingMessage, authority: string | undefined): string {
  const peer = peerAddress(request)
  const node = peer === 'unix' ? 'unknown' : isIPv6(peer) ? `[${peer}]` : peer
  const parts = [`for=${quoted(node)}`, `proto=${protocol(request)}`]
  if (authority !== undefined) parts.push(`host=${quoted(authority)}`)
  return parts.join(';')
}

/** RFC 7239 §4: a value is an RFC 9110 token, or a quoted string. */
function quoted(value: string): string {
  return /^[\w!#$%&'*+.^`|~-]+$/.test(value) ? value : `"${value.replace(/["\\]/g, '\\$&')}"`
}

function protocol({ socket }: IncomingMessage): 'http' | 'https' {
  return (socket as { encrypted?: boolean }).encrypted === true ? 'https' : 'http'
}

/** The port that the client connected to as it knows it: not our own behind a mapping, but the one in its URL. */
function portOf(host: string, proto: string): string {
  return /:(\d+)$/.exec(host)?.[1] ?? (/^https\b/i.test(proto) ? '443' : '80')
}

function append(list: string | undefined, entry: string): string {
  return list === undefined || list.trim() === '' ? entry : `${list}, ${entry}`
}
