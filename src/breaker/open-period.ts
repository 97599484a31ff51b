/** How long to stay open. Meanings, units and defaults: `CircuitBreakerOptions`. */
export interface OpenPeriodOptions {
  readonly openMs: number
  readonly maxOpenMs: number
  readonly jitter: number
  readonly windowMs: number
}

/**
 * The length of each open period: doubled from one trip to the next, and one doubling forgotten for each
 * `windowMs` in between that the breaker was closed (Envoy's outlier detection keeps its ejection time
 * likewise: one step up an ejection, one step down an interval without).
 *
 * Jitter is added on top, so that many gateways do not probe a recovering upstream at one moment, and none
 * before its time.
 */
export class OpenPeriod {
  readonly #options: OpenPeriodOptions
  readonly #random: () => number
  #doublings = 0

  constructor(options: OpenPeriodOptions, random: () => number) {
    this.#options = options
    this.#random = random
  }

  /** Milliseconds of the period that begins now, after `closedMs` closed (0 after a failed probe). */
  next(closedMs: number): number {
    const { openMs, maxOpenMs, jitter, windowMs } = this.#options
    const doublings = Math.max(0, this.#doublings - Math.floor(closedMs / windowMs))
    const period = Math.min(openMs * 2 ** doublings, maxOpenMs)
    // At the maximum there is nothing more to forget than what led there.
    this.#doublings = period < maxOpenMs ? doublings + 1 : doublings
    return period * (1 + jitter * this.#random())
  }
}
