import type { IncomingMessage } from 'node:http'
import { isForwardedField } from './forwarded.ts'

/** Meant for the next hop only: RFC 9110 §7.6.1, RFC 7540 §3.2.1 (`http2-settings`), RFC 9110 §11.7 (`proxy-*`). */
const hopByHop: ReadonlySet<string> = new Set([
  'connection',
  'http2-settings',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authentication-info',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'transfer-encoding',
  'upgrade',
])

/** By lower-case name. */
export function isHopByHop(name: string): boolean {
  return hopByHop.has(name)
}

/** Meant for all recipients: naming one in `Connection` (RFC 9110 §7.6.1 forbids it) does not remove it. */
const endToEnd: ReadonlySet<string> = new Set([
  'authorization',
  'cache-control',
  'content-encoding',
  'content-length',
  'content-range',
  'content-type',
  'cookie',
  'host',
  'set-cookie',
  'trailer',
])

export interface RequestHeaderOptions {
  /** Further lower-case names that a client cannot strip through `Connection`: those the routing key is read from. */
  readonly protectedNames: ReadonlySet<string>
  /** Lower-case names that only the gateway sets: a client's are dropped. */
  readonly gatewayNames: ReadonlySet<string>
}

/**
 * What of a client's headers goes on to the upstream, by lower-case name: an object of the caller's own.
 * Dropped are hop-by-hop headers (`TE` keeps `trailers`, which gRPC needs), those that `Connection` names unless
 * they are meant for all recipients, `Expect` (Node has answered it), the gateway's own, and `X-Forwarded-*`,
 * `Forwarded` and `Via`, which `forwardedHeaders` gives. An upgrade sets `connection` and `upgrade` anew.
 */
export function forwardableRequestHeaders(
  { headers }: IncomingMessage,
  { protectedNames, gatewayNames }: RequestHeaderOptions,
): Record<string, string | string[]> {
  const named = namedBy(headers.connection)
  const kept: Record<string, string | string[]> = {}
  for (const name in headers) {
    const value = headers[name]
    if (value === undefined || hopByHop.has(name) || gatewayNames.has(name)) continue
    if (name === 'expect' || isForwardedField(name)) continue
    if (named?.has(name) && !endToEnd.has(name) && !protectedNames.has(name)) continue
    kept[name] = value
  }
  if (headers.te !== undefined && listMembers([headers.te].flat()).has('trailers')) kept.te = 'trailers'
  return kept
}

/**
 * What of an upstream's headers goes on to the client, names and values in turn, as written and in their order.
 * Dropped are hop-by-hop headers, those that `Connection` names unless they are meant for all recipients, and the
 * gateway's own.
 */
export function forwardableResponseHeaders(
  rawHeaders: readonly string[],
  gatewayNames: ReadonlySet<string>,
): string[] {
  const named = namedBy(valuesOf(rawHeaders, 'connection'))
  const kept: string[] = []
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] as string
    const lowerCase = name.toLowerCase()
    if (hopByHop.has(lowerCase) || gatewayNames.has(lowerCase)) continue
    if (named?.has(lowerCase) && !endToEnd.has(lowerCase)) continue
    kept.push(name, rawHeaders[index + 1] as string)
  }
  return kept
}

/** All values of one header, joined as a list; undefined where there is none. `name`: in lower case. */
export function valuesOf(rawHeaders: readonly string[], name: string): string | undefined {
  let values: string | undefined
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    const other = rawHeaders[index] as string
    if (other.length !== name.length || other.toLowerCase() !== name) continue
    const value = rawHeaders[index + 1] as string
    values = values === undefined ? value : `${values}, ${value}`
  }
  return values
}

/**
 * What of a message's trailers goes on. RFC 9110 §6.5.1 has no place there for fields that frame, route or authenticate,
 * and a recipient that merges trailers into the head must not get there what was kept out of the head. What Node would
 * not write (a lenient parser lets it in) is dropped as well.
 */
export function forwardableTrailers(
  rawTrailers: readonly string[],
  gatewayNames: ReadonlySet<string>,
): [name: string, value: string][] {
  if (rawTrailers.length === 0) return []
  return inPairs(rawTrailers).filter(([field, value]) => {
    const name = field.toLowerCase()
    const isForHead = hopByHop.has(name) || endToEnd.has(name) || isForwardedField(name)
    return !isForHead && !gatewayNames.has(name) && isFieldName(name) && isFieldValue(value)
  })
}

/** RFC 9110 §5.6.2 token. */
export function isFieldName(text: string): boolean {
  return /^[\w!#$%&'*+.^`|~-]+$/.test(text)
}

/** RFC 9110 §5.5: no control characters but the tab. */
export function isFieldValue(text: string): boolean {
  return !/[^\t\x20-\x7e\x80-\xff]/.test(text)
}

/** The names that a `Connection` header lists; undefined for the everyday ones, which list none. */
function namedBy(connection: string | undefined): ReadonlySet<string> | undefined {
  return connection === undefined || /^(?:keep-alive|close)$/i.test(connection)
    ? undefined
    : listMembers([connection])
}

function listMembers(values: readonly string[]): ReadonlySet<string> {
  return new Set(values.flatMap((value) => value.split(',')).map((member) => member.trim().toLowerCase()))
}

/** Node's raw headers or trailers, names and values in turn, as pairs. */
export function inPairs(raw: readonly string[]): [name: string, value: string][] {
  const pairs: [string, string][] = []
  for (let index = 0; index + 1 < raw.length; index += 2) pairs.push([raw[index] ?? '', raw[index + 1] ?? ''])
  return pairs
}
