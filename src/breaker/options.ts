/** Settings of a circuit breaker, complete and checked (see the schema of the options). */
export interface CircuitBreakerOptions {
  /** Failures in a row that trip it. Default 5. */
  readonly consecutiveFailures: number
  /** Share of the requests in the window, in percent, whose failure trips it. Default 50. */
  readonly failureRatePercent: number
  /** Requests in the window below which their rate says nothing. Default 20. */
  readonly minimumRequests: number
  /** Length of the sliding window, and of the time closed that undoes one doubling of the open period. Default 10,000 ms. */
  readonly windowMs: number
  /** First open period. Default 5,000 ms. */
  readonly openMs: number
  /** What the doubled open period never exceeds, before jitter. Default 300,000 ms. */
  readonly maxOpenMs: number
  /** Share of the open period that chance adds at most, 0 to 1. Default 0.1. */
  readonly jitter: number
  /** Probes that a half-open breaker lets out at a time. Default 1. */
  readonly halfOpenProbes: number
  /** Different keys that failures by status must come from. Default 3. */
  readonly distinctKeys: number
}

export const circuitBreakerDefaults: CircuitBreakerOptions = Object.freeze({
  consecutiveFailures: 5,
  failureRatePercent: 50,
  minimumRequests: 20,
  windowMs: 10_000,
  openMs: 5_000,
  maxOpenMs: 300_000,
  jitter: 0.1,
  halfOpenProbes: 1,
  distinctKeys: 3,
})
