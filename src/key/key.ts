import { inspect } from 'node:util'
import { OptionsError } from '../errors.ts'
import { body } from './body-source.ts'
import { chain, composite } from './combine.ts'
import { from, type KeyFunction } from './function-source.ts'
import { cookie, header, ip, param, path, pathSegment, query } from './head-sources.ts'
import type { KeySource } from './key-source.ts'
import { parseKey } from './parse.ts'

/** Wherever a key source is expected: a source, its string form, or a function of the request. */
export type KeyInput = KeySource | string | KeyFunction

/**
 * Takes a key source in any of its three shapes.
 * @throws OptionsError when it is none of them, or a string that `parseKey` refuses
 */
export function toKeySource(input: KeyInput): KeySource {
  if (typeof input === 'string') return parseKey(input)
  if (typeof input === 'function') return from(input)
  if (isKeyInput(input)) return input
  throw new OptionsError(
    `Expected \`key\` to be a key source, its string form such as 'header:x-user-id', or a function, got ${inspect(input)}`,
  )
}

/** Builders of key sources: each gives a frozen source and throws `OptionsError` for arguments it cannot use. */
export const key = Object.freeze({
  header,
  cookie,
  query,
  path,
  pathSegment,
  param,
  ip,
  body,
  from,
  /** See {@link chain}. */
  chain: (...sources: readonly KeyInput[]): KeySource => chain(sources.map(toKeySource)),
  /** See {@link composite}. */
  composite: (...sources: readonly KeyInput[]): KeySource => composite(sources.map(toKeySource)),
  parse: parseKey,
})

/** Whether a value has one of the three shapes; a string may still be no string form. */
export function isKeyInput(value: unknown): value is KeyInput {
  if (typeof value === 'string' || typeof value === 'function') return true
  if (typeof value !== 'object' || value === null) return false
  const { description, bodyLimit, worksForUpgrade, extract } = value as Partial<KeySource>
  return (
    typeof description === 'string' &&
    typeof bodyLimit === 'number' &&
    typeof worksForUpgrade === 'boolean' &&
    typeof extract === 'function'
  )
}
