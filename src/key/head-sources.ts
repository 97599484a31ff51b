import { parseCookie } from 'cookie'
import type { KeySource } from './key-source.ts'
import { splitTarget } from './request-target.ts'
import { makeSource, requirePositiveInteger, unexpected } from './source.ts'
import { escapeArgument } from './string-form.ts'

/** RFC 9110 §5.6.2 `token`. */
const token = /^[\w!#$%&'*+.^`|~-]+$/
/** What the `cookie` package lets a name be: wider than RFC 6265's token, since frameworks use brackets. */
const cookieName = /^[!-:<>-~]+$/

/**
 * A request header, `header:x-user-id`. Outer whitespace is trimmed; repeated headers count as Node joins them
 * (`a, b`). A header that the client lists in `Connection` is read all the same: the key is taken before
 * hop-by-hop headers are removed.
 * @throws OptionsError when `name` is not a header name
 */
export function header(name: string): KeySource {
  const field = requireName('header', 'a header name', name, token).toLowerCase()
  return makeSource({
    description: `header:${escapeArgument(field)}`,
    headerNames: [field],
    read({ headers }) {
      const value = Object.hasOwn(headers, field) ? headers[field] : undefined
      return typeof value === 'string' ? value.trim() : value?.join(', ').trim()
    },
  })
}

/**
 * A cookie, `cookie:sid`, percent-decoded where it decodes and as sent where it does not. Of several cookies
 * with one name the first counts.
 * @throws OptionsError when `name` is not a cookie name
 */
export function cookie(name: string): KeySource {
  requireName('cookie', 'a cookie name', name, cookieName)
  return makeSource({
    description: `cookie:${escapeArgument(name)}`,
    read: ({ headers }) => parseCookie(headers.cookie ?? '')[name],
  })
}

/**
 * A query parameter, `query:user`, decoded as forms are (WHATWG URL); the first of several counts.
 * @throws OptionsError when `name` is empty
 */
export function query(name: string): KeySource {
  requireName('query', 'the name of a query parameter', name)
  return makeSource({
    description: `query:${escapeArgument(name)}`,
    read: (request) => new URLSearchParams(splitTarget(request).query).get(name) ?? undefined,
  })
}

/** The path, `path`, as the client sent it: not decoded, without the query, with the mount path. */
export function path(): KeySource {
  return makeSource({ description: 'path', read: (request) => splitTarget(request).path })
}

/**
 * One segment of the path, `path:1` for the first, not decoded. Counted from slash to slash: the second
 * segment of `/a//b` is empty, hence missing.
 * @throws OptionsError when `position` is not a whole number above 0
 */
export function pathSegment(position: number): KeySource {
  requirePositiveInteger('pathSegment', 'the position of a segment', position)
  return makeSource({
    description: `path:${position}`,
    read: (request) => splitTarget(request).path.split('/')[position],
  })
}

/**
 * A route parameter, `param:id`, as the router decoded it; the first part of a wildcard. The proxy's own router has to
 * know it: a `Router` between the route and the proxy needs `mergeParams: true`. An upgrade has no route, so this does
 * not work there.
 * @throws OptionsError when `name` is empty
 */
export function param(name: string): KeySource {
  requireName('param', 'the name of a route parameter', name)
  return makeSource({
    description: `param:${escapeArgument(name)}`,
    worksForUpgrade: false,
    read: ({ params }) => (params && Object.hasOwn(params, name) ? [params[name]].flat()[0] : undefined),
  })
}

/** The client's address, `ip`, under the proxy's trust setting. */
export function ip(): KeySource {
  return makeSource({ description: 'ip', read: (_request, facts) => facts.clientAddress() })
}

function requireName(builder: string, expected: string, name: unknown, pattern = /./s): string {
  if (typeof name === 'string' && pattern.test(name)) return name
  throw unexpected(builder, expected, name)
}
