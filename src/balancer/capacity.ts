/**
 * Relative error up to which two results count as equal. The terms here carry the rounding of a sum of n
 * weights and of at most seven more operations and decimal inputs, so at most (n + 7) × 2^-53 relative:
 * below 2^-40 for up to 8,000 upstreams.
 */
export const roundingSlack = 2 ** -40

/** The rule, the same for every upstream. */
export interface LoadBound {
  /** The balance factor, at least 1: how many times its fair share an upstream may take. */
  readonly factor: number
  /** In-flight requests that an upstream of mean weight may always have; 0 for the textbook's rule. */
  readonly floor: number
}

/** Sums over the eligible upstreams. */
export interface LoadTotals {
  /** Requests in flight, without the one to be placed. */
  readonly inFlight: number
  /** Weights (each times its slow-start ramp), above 0. */
  readonly weight: number
  /** How many upstreams. */
  readonly count: number
}

/**
 * How many requests an eligible upstream of this weight (times its slow-start ramp) may have in flight once
 * the next one is placed: it may take that one if `inFlight < capacity`. Consistent hashing with bounded
 * loads, arXiv 1608.01350, with a floor that keeps affinity when traffic is low.
 *
 * A full walk always finds room. With L in flight, W = Σ w and factor c ≥ 1:
 *
 *     Σ capacity ≥ Σ ceil(c × (L + 1) × w / W) ≥ c × (L + 1) ≥ L + 1 > L = Σ inFlight
 *
 * so at least one upstream has `inFlight < capacity`. Rounding does not break this: each term may come out
 * low by 2 × `roundingSlack` relative, hence their sum is above L as long as L < 2^38, and a sum of whole
 * numbers above L is at least L + 1.
 */
export function capacity(bound: LoadBound, totals: LoadTotals, weight: number): number {
  const fairShare = wholeAtLeast((bound.factor * (totals.inFlight + 1) * weight) / totals.weight)
  if (bound.floor <= 0) return fairShare
  return Math.max(wholeAtLeast((bound.floor * weight * totals.count) / totals.weight), fairShare)
}

/** Rounds up what is not whole already: 1.25 × 60 × 0.3 / (0.3 + 0.3 + 0.3) is 25, but 25.000000000000004 in floats. */
function wholeAtLeast(value: number): number {
  return Math.ceil(value * (1 - roundingSlack))
}
