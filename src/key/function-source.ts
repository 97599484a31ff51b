import { OptionsError } from '../errors.ts'
import type { KeyRequest, KeySource } from './key-source.ts'
import { makeSource, unexpected } from './source.ts'

/** A function of the request that gives the key, or nothing when the request has none. */
export type KeyFunction = {
  // As a method: only then does TypeScript take a function of a framework's own kind of request for one.
  read(request: KeyRequest): string | readonly string[] | number | bigint | null | undefined
}['read']

/**
 * The operator's own function; in a chain with a body source it may be called twice for one request. Strings, numbers
 * and bigints count, and lists of strings (a header as Node gives it), joined with commas; all else is no key. What it
 * throws reaches the caller, past the rest of a chain, so that a mistake in it is seen and not taken for a request
 * without a key. It has no string form.
 * @throws OptionsError when `read` is not a function; on extraction, when it gives a promise, which cannot be
 * waited for between reading a request and choosing its upstream
 */
export function from(read: KeyFunction): KeySource {
  if (typeof read !== 'function') throw unexpected('from', 'a function of the request', read)
  return makeSource({
    description: 'function',
    read(request) {
      const value: unknown = read(request)
      if (typeof value === 'string') return value
      if (Array.isArray(value) && value.every((part) => typeof part === 'string')) return value.join(', ')
      if (typeof value === 'number' || typeof value === 'bigint') return String(value)
      if (value instanceof Promise) {
        throw new OptionsError('Expected the key function to return a string or undefined, got a promise')
      }
      return undefined
    },
  })
}
