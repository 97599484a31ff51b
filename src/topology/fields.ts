import { inspect } from 'node:util'
import { type RefusalReason, RefusedEntryError } from '../errors.ts'
import type { UpstreamState } from './topology.ts'

/** Longest id and zone, in UTF-16 code units: they are metric labels and HTTP header values. */
const LONGEST_NAME = 256
const STATES: readonly string[] = ['active', 'draining', 'warming'] satisfies UpstreamState[]

/** A value as it stands in a message: on one line, cut short. */
export function show(value: unknown): string {
  const text = typeof value === 'string' ? JSON.stringify(value) : inspect(value, { breakLength: Infinity })
  return text.length > 80 ? `${text.slice(0, 79)}…` : text
}

/** A refusal that names the field, what was expected and what came. */
export function refusedField(
  reason: RefusalReason,
  field: string,
  expected: string,
  given: unknown,
): RefusedEntryError {
  return new RefusedEntryError(reason, `${field}: expected ${expected}, got ${show(given)}`)
}

/** An id or a zone: 1 to 256 characters, none of them a control character or half of a surrogate pair. */
export function checkName(field: string, value: unknown): string {
  const legal =
    typeof value === 'string' &&
    value.length <= LONGEST_NAME &&
    /^\P{Cc}+$/u.test(value) &&
    value.isWellFormed()
  if (legal) return value
  throw refusedField(
    'field',
    field,
    `a string of 1 to ${LONGEST_NAME} characters, no control characters`,
    value,
  )
}

export function checkWeight(value: unknown): number {
  // Written so that NaN is refused too.
  if (typeof value === 'number' && value > 0 && value <= 100) return value
  throw refusedField('weight', 'weight', 'a number above 0 and at most 100', value)
}

export function checkState(value: unknown): UpstreamState {
  if (isState(value)) return value
  throw refusedField('field', 'state', STATES.map(show).join(' or '), value)
}

const isState = (value: unknown): value is UpstreamState => STATES.includes(value as string)

/** Metadata is compared and shown in status as JSON. */
export function checkMetadata(value: unknown): Readonly<Record<string, unknown>> {
  if (isRecord(value) && hasJson(value)) return value
  throw refusedField('field', 'metadata', 'an object that JSON can hold', value)
}

/** False for a bigint or a circle somewhere in it. */
function hasJson(value: unknown): boolean {
  try {
    JSON.stringify(value)
    return true
  } catch {
    return false
  }
}

/** Whether a value is an object with named members: neither null nor a list. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** What a caught value says. */
export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** A URL for a message: messages are logged, a password must not be. */
export const withoutCredentials = (value: unknown) =>
  typeof value === 'string' ? value.replace(/\/\/.*@/s, '//…@') : value
