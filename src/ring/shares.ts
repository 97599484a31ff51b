import type { Steps } from '../steps.ts'
import type { Points } from './points.ts'

/** Points summed in one step. */
const STEP = 32_768

/**
 * The exact share of the circle that each member owns, by index. A point owns the arc from the point before it
 * (exclusive) to itself; the first one's arc goes through 0.
 *
 * The halves of the arcs are summed apart: a member has at most 10^6 points and a half's difference is below 2^32,
 * so every sum stays an exact double, and only the last addition rounds.
 */
export function* memberShares({ size, high, low, member }: Points, members: number): Steps<Float64Array> {
  const highs = new Float64Array(members)
  const lows = new Float64Array(members)
  let previousHigh = (high[size - 1] ?? 0) - 2 ** 32
  let previousLow = low[size - 1] ?? 0
  for (let index = 0; index < size; index++) {
    if (index % STEP === STEP - 1) yield
    const owner = member[index] as number
    highs[owner] = (highs[owner] as number) + (high[index] as number) - previousHigh
    lows[owner] = (lows[owner] as number) + (low[index] as number) - previousLow
    previousHigh = high[index] as number
    previousLow = low[index] as number
  }
  return highs.map((sum, index) => (sum + (lows[index] as number) / 2 ** 32) / 2 ** 32)
}
