import { inspect } from 'node:util'
import { OptionsError } from '../errors.ts'
import type { KeyFacts, KeyRequest, KeySource } from './key-source.ts'

/** What a source is made of; what is left out is as for one that looks at the head of any request. */
export interface SourceParts {
  readonly description: string
  /** May give an empty or blank text; the source made of it then has no key. */
  readonly read: (request: KeyRequest, facts: KeyFacts) => string | undefined
  readonly bodyLimit?: number
  readonly worksForUpgrade?: boolean
  readonly headerNames?: readonly string[]
}

/** Makes the frozen source; the one place that decides that a blank key is no key. */
export function makeSource({
  description,
  read,
  bodyLimit = 0,
  worksForUpgrade = true,
  headerNames = [],
}: SourceParts): KeySource {
  return Object.freeze<KeySource>({
    description,
    bodyLimit,
    worksForUpgrade,
    headerNames,
    extract(request, facts) {
      const text = read(request, facts)
      return text === undefined || text.trim() === '' ? undefined : text
    },
  })
}

/** The error of a builder that was given something else than it expects. */
export function unexpected(builder: string, expected: string, given: unknown): OptionsError {
  return new OptionsError(`Expected \`key.${builder}\` to get ${expected}, got ${inspect(given)}`)
}

/** Returns `value` when it is a whole number above 0; throws `OptionsError` otherwise. */
export function requirePositiveInteger(builder: string, what: string, value: unknown): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value > 0) return value
  throw unexpected(builder, `${what}, a whole number above 0`, value)
}
