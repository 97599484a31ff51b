import { OptionsError } from '../errors.ts'
import { show } from './fields.ts'

/** A duration option. Throws OptionsError. */
export function milliseconds(
  option: string,
  value: number | undefined,
  byDefault: number,
  atLeast = 1,
): number {
  if (value === undefined) return byDefault
  // 2^31 - 1 is the longest that a timer takes; beyond it Node fires at once.
  if (Number.isFinite(value) && value >= atLeast && value < 2 ** 31) return value
  throw new OptionsError(`${option}: expected ${atLeast} to ${2 ** 31 - 1} milliseconds, got ${show(value)}`)
}
