/** The middle of the values, and the middle half's ends. */
export interface Spread {
  readonly median: number
  readonly lowerQuartile: number
  readonly upperQuartile: number
}

/** @throws RangeError for no values at all */
export function spreadOf(values: readonly number[]): Spread {
  if (values.length === 0) throw new RangeError('Expected at least one value, got none')
  const sorted = [...values].sort((a, b) => a - b)
  return {
    median: quantile(sorted, 0.5),
    lowerQuartile: quantile(sorted, 0.25),
    upperQuartile: quantile(sorted, 0.75),
  }
}

/** The median, and the middle half's ends in brackets. */
export function spreadText({ median, lowerQuartile, upperQuartile }: Spread, digits: number): string {
  return `${median.toFixed(digits)} (${lowerQuartile.toFixed(digits)}–${upperQuartile.toFixed(digits)})`
}

/** Between two ranks, linear. */
function quantile(sorted: readonly number[], share: number): number {
  const rank = (sorted.length - 1) * share
  const below = sorted[Math.floor(rank)] ?? Number.NaN
  const above = sorted[Math.ceil(rank)] ?? Number.NaN
  return below + (above - below) * (rank - Math.floor(rank))
}
