import type { Clock } from '../clock.ts'
import type { Steps } from '../steps.ts'

/** Milliseconds that a build holds the event loop up at a time: little beside what a request takes anyway. */
const SLICE_MS = 3
/** Steps that are taken at once, however long they take: those of a small cluster, whose changes nobody should wait for. */
const UNDIVIDED_STEPS = 20
/** Rest behind a build that took more than one slice, as a multiple of its work, and the longest one. */
const REST = 4
const LONGEST_REST_MS = 500

/**
 * Puts one thing after another into use, of those that come meanwhile only the newest. What takes no longer than a slice
 * is in use at once; the rest is built slice by slice, between which requests go on.
 */
export class Rollout<T> {
  readonly #build: (next: T) => Steps<void>
  readonly #failed: (error: unknown) => void
  readonly #clock: Clock
  #next: T | undefined
  #steps: Steps<void> | undefined
  /** Milliseconds of work on what is being built, and when the next build may begin. */
  #worked = 0
  #earliest = Number.NEGATIVE_INFINITY
  #cancelPause: (() => void) | undefined
  #settled: (() => void)[] = []

  /**
   * `build` changes nothing that is in use before its last step; `failed` hears what it throws, and what is in use stays.
   */
  constructor(build: (next: T) => Steps<void>, failed: (error: unknown) => void, clock: Clock) {
    this.#build = build
    this.#failed = failed
    this.#clock = clock
  }

  take(next: T): void {
    this.#next = next
    if (!this.#cancelPause) this.#begin()
  }

  /** Resolves when everything that was taken is in use, or given up. */
  settled(): Promise<void> {
    if (!this.#cancelPause) return Promise.resolve()
    return new Promise((resolve) => this.#settled.push(resolve))
  }

  /** Gives up what is not in use yet. */
  close(): void {
    this.#cancelPause?.()
    this.#finish()
  }

  #begin(): void {
    this.#cancelPause = undefined
    if (this.#next === undefined) {
      this.#finish()
      return
    }
    const rest = this.#earliest - this.#clock.now()
    if (rest > 0) {
      const timer = this.#clock.setTimeout(() => this.#begin(), rest)
      this.#cancelPause = () => timer.cancel()
      return
    }
    const next = this.#next
    this.#next = undefined
    this.#worked = 0
    this.#steps = this.#build(next)
    this.#advance()
  }

  #advance(): void {
    const started = this.#clock.now()
    const isSliced = this.#worked > 0
    let undivided = isSliced ? 0 : UNDIVIDED_STEPS
    let isDone: boolean
    let now = started
    do {
      isDone = this.#step()
      undivided -= 1
      now = this.#clock.now()
    } while (!isDone && (undivided > 0 || now - started < SLICE_MS))
    this.#worked += now - started
    if (!isDone) {
      const immediate = setImmediate(() => this.#advance())
      this.#cancelPause = () => clearImmediate(immediate)
      return
    }
    if (isSliced) this.#earliest = now + Math.min(REST * this.#worked, LONGEST_REST_MS)
    this.#begin()
  }

  /** Returns whether it was the last one. */
  #step(): boolean {
    try {
      return this.#steps?.next().done ?? true
    } catch (error) {
      this.#failed(error)
      return true
    }
  }

  #finish(): void {
    this.#cancelPause = undefined
    this.#steps = undefined
    this.#next = undefined
    for (const resolve of this.#settled.splice(0)) resolve()
  }
}
