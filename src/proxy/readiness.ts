import type { Clock } from '../clock.ts'
import { ClosedError } from '../errors.ts'

/** Whether the first topology is in, or known not to come for now. */
export class Readiness {
  readonly #clock: Clock
  readonly #ready: Promise<void>
  /** Resolves when it makes no sense to wait any longer: ready, closed, or the source has failed. */
  readonly #known: Promise<void>
  #resolve: () => void = () => {}
  #reject: (error: Error) => void = () => {}
  #stopWaiting: () => void = () => {}

  constructor(clock: Clock) {
    this.#clock = clock
    this.#ready = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
    // Whoever asks for it gets the error; that nobody asks must not end the process.
    this.#ready.catch(() => {})
    this.#known = new Promise((resolve) => {
      this.#stopWaiting = resolve
    })
  }

  /** Resolves with the first topology, however long that takes; rejects with `ClosedError`. */
  get ready(): Promise<void> {
    return this.#ready
  }

  arrived(): void {
    this.#resolve()
    this.#stopWaiting()
  }

  sourceFailed(): void {
    this.#stopWaiting()
  }

  close(): void {
    this.#reject(new ClosedError('The proxy'))
    this.#stopWaiting()
  }

  /**
   * Waits a little for the first topology: the moment between start and the first read need not cost a request. Waits
   * no longer once the source has failed.
   */
  wait(milliseconds: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.#clock.setTimeout(resolve, milliseconds)
      this.#known.then(() => {
        timer.cancel()
        resolve()
      })
    })
  }
}
