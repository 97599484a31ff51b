import { OptionsError, RefusedEntryError } from '../errors.ts'
import { refusedField, show, withoutCredentials } from './fields.ts'

/**
 * Which hosts upstreams may have: a list of exact hosts (`10.0.0.7`, any port), hosts with a port
 * (`10.0.0.7:8080`) and wildcards (`*.cache.internal`: any depth below it, not itself), or a function.
 * IPv6 hosts stand in brackets, as in URLs. Without it every host is allowed.
 */
export type AllowedHosts = readonly string[] | ((url: URL) => boolean)

/** Whether a host may be forwarded to. */
export type HostFilter = (url: URL) => boolean

/** `AllowedHosts` made into one predicate. Throws OptionsError for an entry that can never match. */
export function hostFilter(allowed: AllowedHosts | undefined): HostFilter {
  if (allowed === undefined) return () => true
  if (typeof allowed === 'function') return allowed
  if (!Array.isArray(allowed)) {
    throw new OptionsError(`allowedHosts: expected a list of hosts or a function, got ${show(allowed)}`)
  }
  const exact = new Set<string>()
  const suffixes: string[] = []
  for (const [index, entry] of allowed.entries()) {
    if (typeof entry !== 'string' || !/^(\*\.)?[^\s/*@?#]+$/.test(entry)) {
      const expected = 'a host, host:port or *.suffix without a scheme'
      throw new OptionsError(`allowedHosts[${index}]: expected ${expected}, got ${show(entry)}`)
    }
    const host = entry.toLowerCase()
    if (host.startsWith('*.')) suffixes.push(host.slice(1))
    else exact.add(host)
  }
  return (url) =>
    exact.has(url.hostname) ||
    exact.has(hostAndPort(url)) ||
    suffixes.some((suffix) => url.hostname.length > suffix.length && url.hostname.endsWith(suffix))
}

/** `host:port` with the port written out even where it is the scheme's own (80, 443). */
export function hostAndPort(url: URL): string {
  return `${url.hostname}:${url.port || (url.protocol === 'https:' ? '443' : '80')}`
}

/**
 * The URL of an upstream in the WHATWG parser's canonical form, so that every later reader sees the host
 * which was checked here. Throws RefusedEntryError `url` or `host`.
 */
export function parseUpstreamUrl(value: unknown, mayHave: HostFilter): URL {
  const expected = 'an http:// or https:// URL without credentials, query or fragment'
  // The parser drops tabs and line breaks and reads `\` as `/`: what a person reads must be what is parsed.
  if (typeof value !== 'string' || !/^https?:\/\/[^\s\\?#]+$/i.test(value) || !URL.canParse(value)) {
    throw refusedField('url', 'url', expected, withoutCredentials(value))
  }
  const url = new URL(value)
  if (url.username !== '' || url.password !== '') {
    throw refusedField('url', 'url', expected, withoutCredentials(value))
  }
  if (!mayHave(url)) {
    throw new RefusedEntryError(
      'host',
      `url: expected a host among allowedHosts, got ${show(hostAndPort(url))}`,
    )
  }
  return url
}

/** The text that stands for the URL in a topology: without the slash of an empty path. */
export function urlText(url: URL): string {
  return url.pathname === '/' ? url.origin : url.href
}
