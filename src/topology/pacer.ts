import type { Clock, Timer } from '../clock.ts'

/** Rest after a run, as a multiple of what the run took: work that never stops coming takes a fifth of the time. */
const REST = 4
/** Longest rest, in milliseconds: one slow run, as the first of a process is, must not keep a change back for long. */
const LONGEST_REST_MS = 500

/**
 * Runs work when asked: at once, unless the last run was so recent or so long that it must rest first. What is asked
 * for meanwhile is merged into one run, so a thousand changes cost a few runs and a single one does not wait.
 */
export class Pacer {
  readonly #work: () => void
  readonly #clock: Clock
  #earliest = Number.NEGATIVE_INFINITY
  #waiting: Timer | undefined

  constructor(work: () => void, clock: Clock) {
    this.#work = work
    this.#clock = clock
  }

  /** Runs now or after the rest. */
  ask(): void {
    if (this.#waiting) return
    const rest = this.#earliest - this.#clock.now()
    if (rest <= 0) this.#run()
    else this.#waiting = this.#clock.setTimeout(() => this.#run(), rest)
  }

  /** Runs now what was asked for and still waits. */
  flush(): void {
    if (this.#waiting) this.#run()
  }

  close(): void {
    this.#waiting?.cancel()
    this.#waiting = undefined
  }

  #run(): void {
    this.close()
    const started = this.#clock.now()
    this.#work()
    const ended = this.#clock.now()
    this.#earliest = ended + Math.min(REST * (ended - started), LONGEST_REST_MS)
  }
}
