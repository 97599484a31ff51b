import type { Clock } from '../clock.ts'

/** Lines of one kind that are logged in a period, and its length in milliseconds. */
const LINES = 20
const PERIOD_MS = 10_000

/** Lets the first lines of each period through: ten thousand bad values are for the metrics to count. */
export class LogLimit {
  readonly #clock: Clock
  #since = Number.NEGATIVE_INFINITY
  #lines = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Whether to log a line, or instead of it and of those to come for a while that they are left out, or nothing. */
  next(): 'line' | 'left-out' | 'nothing' {
    const now = this.#clock.now()
    if (now - this.#since >= PERIOD_MS) {
      this.#since = now
      this.#lines = 0
    }
    this.#lines += 1
    if (this.#lines <= LINES) return 'line'
    return this.#lines === LINES + 1 ? 'left-out' : 'nothing'
  }
}
