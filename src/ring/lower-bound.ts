/**
 * Index of the first position at or after the wanted one, or the number of positions when all are before it.
 * Positions are 64 bits in two parallel arrays, sorted; the wanted one comes as its two halves, so that
 * nothing is allocated.
 */
export function lowerBound(
  high: Uint32Array,
  low: Uint32Array,
  wantedHigh: number,
  wantedLow: number,
): number {
  let first = 0
  let end = high.length
  while (first < end) {
    const middle = (first + end) >>> 1
    const middleHigh = high[middle] as number
    if (middleHigh < wantedHigh || (middleHigh === wantedHigh && (low[middle] as number) < wantedLow)) {
      first = middle + 1
    } else {
      end = middle
    }
  }
  return first
}
