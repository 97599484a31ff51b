/** Settings of a circuit breaker, complete and checked (see the schema of the options). */
export interface CircuitBreakerOptions {
  /** Failures in a row that trip it. */
  readonly consecutiveFailures: number
  /** Share of the requests in the window, in percent, whose failure trips it. */
  readonly failureRatePercent: number
  /** Requests in the window below which their rate says nothing. */
  readonly minimumRequests: number
  /** Length of the sliding window, and of the time closed that undoes one doubling of the open period. */
  readonly windowMs: number
  /** First open period. */
  readonly openMs: number
  /** What the doubled open period never exceeds, before jitter. */
  readonly maxOpenMs: number
  /** Share of the open period that chance adds at most, 0 to 1. */
  readonly jitter: number
  /** Probes that a half-open breaker lets out at a time. */
  readonly halfOpenProbes: number
  /** Different keys that failures by status must come from. */
  readonly distinctKeys: number
}
