import { type OutgoingHttpHeaders, validateHeaderName, validateHeaderValue } from 'node:http'
import { isHopByHop } from '../http/header-fields.ts'
import { topologyHeaderNames } from '../topology-headers.ts'

/**
 * Lets the operator's hook change headers, by any spelling of their names. What frames the message, holds for one
 * connection or speaks of the topology stays as it was: a hook cannot desynchronise two servers. What it leaves is
 * checked here: a socket would take anything, and a response what stands before the mistake.
 * @returns the headers by lower-case name
 * @throws TypeError for what is no header, and whatever the hook throws
 */
export function applyHook(
  headers: OutgoingHttpHeaders,
  hook: ((headers: OutgoingHttpHeaders) => void) | undefined,
): OutgoingHttpHeaders {
  if (!hook) return headers
  const before = Object.entries(headers).filter(([name]) => isReserved(name))
  hook(headers)
  const changed: OutgoingHttpHeaders = Object.create(null)
  for (const [spelling, value] of Object.entries(headers)) {
    const name = spelling.toLowerCase()
    if (value === undefined || isReserved(name)) continue
    validateHeaderName(name)
    for (const item of [value].flat()) validateHeaderValue(name, String(item))
    changed[name] = value
  }
  return Object.assign(changed, Object.fromEntries(before))
}

function isReserved(name: string): boolean {
  return isHopByHop(name) || framing.has(name) || topologyHeaderNames.has(name)
}

/** Beside the hop-by-hop ones, what tells the recipient what to expect behind the head. */
const framing: ReadonlySet<string> = new Set(['content-length', 'expect', 'trailer'])
