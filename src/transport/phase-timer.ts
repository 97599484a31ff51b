import type { Clock, Timer } from '../clock.ts'

/**
 * The one timer of an attempt: whichever phase it is in, `onTimeout` is called once that phase has lasted too long.
 * A phase that makes progress is kept alive with `touch`, which costs a clock reading and no new timer.
 */
export class PhaseTimer {
  readonly #clock: Clock
  readonly #onTimeout: () => void
  #timer: Timer | undefined
  #limit = 0
  #since = 0

  constructor(clock: Clock, onTimeout: () => void) {
    this.#clock = clock
    this.#onTimeout = onTimeout
  }

  /** Ends the phase before, if any, and starts one of at most `milliseconds`. */
  start(milliseconds: number): void {
    this.stop()
    this.#limit = milliseconds
    this.touch()
    this.#wait(milliseconds)
  }

  touch(): void {
    this.#since = this.#clock.now()
  }

  stop(): void {
    this.#timer?.cancel()
    this.#timer = undefined
  }

  #wait(milliseconds: number): void {
    this.#timer = this.#clock.setTimeout(() => {
      const left = this.#since + this.#limit - this.#clock.now()
      if (left > 0.5) this.#wait(Math.ceil(left))
      else this.#onTimeout()
    }, milliseconds)
  }
}
