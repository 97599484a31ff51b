import { RollingWindow } from '../breaker/rolling-window.ts'
import type { Clock } from '../clock.ts'

export interface RetryBudgetOptions {
  /** Retries allowed as a share of the requests of the last 10 s, in percent. Default 20. */
  readonly percent: number
  /** Retries allowed in any second, however few the requests. Default 3. */
  readonly minPerSecond: number
}

/** As long as that of finagle's `RetryBudget`. */
const windowMs = 10_000

/**
 * Keeps retries a small share of the traffic, so that a struggling cluster does not get a multiple of its
 * load on top. A retry counts from the moment it is admitted: with requests as the only measure, any number
 * of retries could be admitted before the first of them shows.
 */
export class RetryBudget {
  readonly #options: RetryBudgetOptions
  readonly #clock: Clock
  readonly #requests = new RollingWindow(windowMs)
  readonly #retries = new RollingWindow(windowMs)
  readonly #retriesOfLastSecond = new RollingWindow(1_000)

  constructor(options: RetryBudgetOptions, clock: Clock) {
    this.#options = options
    this.#clock = clock
  }

  /** Counts a client's request; its retries are not counted here. */
  recordRequest(): void {
    this.#requests.add(this.#clock.now())
  }

  /** Whether one more retry may be sent now; if so, it is counted. */
  tryAdmit(): boolean {
    const now = this.#clock.now()
    const withinShare = this.#retries.total(now) * 100 < this.#requests.total(now) * this.#options.percent
    if (!withinShare && this.#retriesOfLastSecond.total(now) >= this.#options.minPerSecond) return false
    this.#retries.add(now)
    this.#retriesOfLastSecond.add(now)
    return true
  }
}
