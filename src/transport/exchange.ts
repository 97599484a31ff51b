import { type Deadlines, PhaseTimer } from './phase-timer.ts'

/** The ends that a request and an upgrade have in common. */
type CommonOutcome =
  | { readonly kind: 'connectFailed' | 'broken'; readonly error: Error }
  | { readonly kind: 'queuedTooLong' | 'timedOut' | 'aborted' }

/** How far it is: waiting for the pool, for the connection, or on a connection that stands. */
type Stage = 'queued' | 'connecting' | 'new' | 'reused'

/**
 * One exchange with an upstream under way: settles its outcome once, knows whether the connection stood (before that
 * nothing was sent), and limits the phase it is in.
 */
export abstract class Exchange<Outcome extends { kind: string }> {
  readonly outcome: Promise<Outcome | CommonOutcome>
  protected readonly timer: PhaseTimer
  readonly #connectMs: number
  readonly #deadlines: Deadlines
  #deadline: number
  #resolve: (outcome: Outcome | CommonOutcome) => void = () => {}
  #stage: Stage = 'queued'
  #settled = false

  /** `totalMs`: how long all the waiting may take together. */
  protected constructor(connectMs: number, deadlines: Deadlines, totalMs = Number.POSITIVE_INFINITY) {
    this.#connectMs = connectMs
    this.#deadlines = deadlines
    this.#deadline = deadlines.now() + totalMs
    this.timer = new PhaseTimer(deadlines, () => {
      this.settle(this.tooLate())
      this.destroy()
    })
    this.outcome = new Promise((resolve) => {
      this.#resolve = resolve
    })
  }

  abort(): void {
    this.settle({ kind: 'aborted' })
    this.destroy()
  }

  fail(error: Error): void {
    this.settle({ kind: this.isConnected ? 'broken' : 'connectFailed', error })
  }

  protected get settled(): boolean {
    return this.#settled
  }

  protected get isConnected(): boolean {
    return this.#stage === 'new' || this.#stage === 'reused'
  }

  /** Whether the connection had been idle: the upstream may have closed it before the request came. */
  protected get onReusedConnection(): boolean {
    return this.#stage === 'reused'
  }

  /** The connection is being made. */
  connecting(): void {
    if (this.#stage === 'connecting') return
    this.#stage = 'connecting'
    this.wait(this.#connectMs)
  }

  /** The connection stands: what is sent from here on may have reached the upstream. */
  connected(connection: 'new' | 'reused'): void {
    this.#stage = connection
    this.onConnected()
  }

  protected abstract onConnected(): void

  /** Gives up the connection, and whatever is under way on it. */
  protected abstract destroy(): void

  protected now(): number {
    return this.#deadlines.now()
  }

  /** Begins a phase of waiting for the upstream. */
  protected wait(milliseconds: number): void {
    this.timer.start(Math.max(0, Math.min(milliseconds, this.#deadline - this.#deadlines.now())))
  }

  /** What the client takes to send its body is not the upstream's time. */
  protected prolong(milliseconds: number): void {
    this.#deadline += milliseconds
  }

  protected settle(outcome: Outcome | CommonOutcome): void {
    if (this.#settled) return
    this.#settled = true
    this.timer.stop()
    this.#resolve(outcome)
  }

  /** What it means that the phase it is in has lasted too long. */
  protected tooLate(): Outcome | CommonOutcome {
    if (this.isConnected) return { kind: 'timedOut' }
    if (this.#stage === 'queued') return { kind: 'queuedTooLong' }
    return { kind: 'connectFailed', error: new Error(`no connection within ${this.#connectMs} ms`) }
  }
}
