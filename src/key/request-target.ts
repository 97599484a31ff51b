import type { KeyRequest } from './key-source.ts'

/** Scheme and authority of a target in absolute form (RFC 9112 §3.2.2). */
const origin = /^[a-z][a-z\d+.-]*:\/\/[^/?]*/i

/**
 * Path and query as the client sent them, nothing decoded: where Express mounted the proxy does not matter
 * (`originalUrl`), nor whether the target was in absolute form.
 */
export function splitTarget(request: KeyRequest): { readonly path: string; readonly query: string } {
  const target = (request.originalUrl ?? request.url ?? '').replace(origin, '')
  const mark = target.indexOf('?')
  const path = mark === -1 ? target : target.slice(0, mark)
  return { path: path === '' ? '/' : path, query: mark === -1 ? '' : target.slice(mark + 1) }
}
