import type { Clock, Timer } from '../clock.ts'
import { type Placed, UnorderedList } from '../unordered-list.ts'

/** Milliseconds that a deadline may be late for each hundred of its kind: looking through them costs time as well. */
const LATENESS_MS_PER_HUNDRED = 1

/**
 * All the deadlines of a proxy on one timer. Almost none is ever reached, so that setting one costs next to nothing and
 * the few that are reached are looked for: at the moment when the first may be due.
 */
export class Deadlines {
  readonly #clock: Clock
  readonly #running = new UnorderedList<PhaseTimer>()
  #timer: Timer | undefined
  #nextLook = Number.POSITIVE_INFINITY

  constructor(clock: Clock) {
    this.#clock = clock
  }

  now(): number {
    return this.#clock.now()
  }

  /** From now on `timer` is looked at. */
  add(timer: PhaseTimer): void {
    this.#running.add(timer)
    this.expect(timer.due)
  }

  remove(timer: PhaseTimer): void {
    this.#running.remove(timer)
  }

  /** One of them may be due at `due`. */
  expect(due: number): void {
    if (due >= this.#nextLook) return
    this.#timer?.cancel()
    this.#nextLook = due
    this.#timer = this.#clock.setTimeout(this.#look, Math.max(0, Math.ceil(due - this.#clock.now())))
  }

  /** None of them is reached any more. */
  close(): void {
    this.#timer?.cancel()
    this.#running.clear()
  }

  readonly #look = (): void => {
    const now = this.#clock.now()
    this.#timer = undefined
    this.#nextLook = Number.POSITIVE_INFINITY
    for (const timer of this.#running) if (timer.due <= now + 0.5) timer.reach()
    if (this.#running.size === 0) return
    let first = Number.POSITIVE_INFINITY
    for (const { due } of this.#running) first = Math.min(first, due)
    this.expect(Math.max(first, now + (this.#running.size * LATENESS_MS_PER_HUNDRED) / 100))
  }
}

/**
 * The one deadline of an attempt: whichever phase it is in, `onTimeout` is called once that phase has lasted too long.
 * A phase that makes progress is kept alive with `touch`.
 */
export class PhaseTimer implements Placed {
  readonly #deadlines: Deadlines
  readonly #onTimeout: () => void
  #limit = 0
  #isRunning = false
  /** Clock time of the deadline. */
  due = Number.POSITIVE_INFINITY
  place = -1

  constructor(deadlines: Deadlines, onTimeout: () => void) {
    this.#deadlines = deadlines
    this.#onTimeout = onTimeout
  }

  /** Ends the phase before, if any, and starts one of at most `milliseconds`. */
  start(milliseconds: number): void {
    this.#limit = milliseconds
    this.touch()
    if (this.#isRunning) this.#deadlines.expect(this.due)
    else {
      this.#isRunning = true
      this.#deadlines.add(this)
    }
  }

  touch(): void {
    this.due = this.#deadlines.now() + this.#limit
  }

  stop(): void {
    if (!this.#isRunning) return
    this.#isRunning = false
    this.#deadlines.remove(this)
  }

  /** Called by `deadlines` when the deadline is reached. */
  reach(): void {
    if (!this.#isRunning) return // an earlier one has ended it
    this.stop()
    this.#onTimeout()
  }
}
