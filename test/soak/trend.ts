/** One reading of a figure. */
export interface Reading {
  /** Seconds since the start. */
  readonly at: number
  readonly value: number
}

/**
 * By how much a figure grew over its readings: the median slope of all pairs of them (the Theil–Sen estimator) over their
 * whole time. A burst or a late garbage collection moves it little, a leak wholly.
 */
export function growth(readings: readonly Reading[]): number {
  const slopes = readings
    .flatMap((one, index) =>
      readings.slice(index + 1).map((other) => (other.value - one.value) / (other.at - one.at)),
    )
    .sort((a, b) => a - b)
  const seconds = (readings.at(-1)?.at ?? 0) - (readings[0]?.at ?? 0)
  return (slopes[slopes.length >> 1] ?? 0) * seconds
}
