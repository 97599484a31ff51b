import type { Readable } from 'node:stream'
import { Exchange } from './exchange.ts'
import type { Deadlines } from './phase-timer.ts'
import type { Attempt, AttemptOptions, AttemptOutcome, OutgoingBody } from './transport.ts'

/** One request to one upstream: connect, send the body, wait for the head; each phase has its own limit. */
export abstract class RequestExchange extends Exchange<AttemptOutcome> implements Attempt {
  protected readonly options: AttemptOptions
  #sendingSince: number | undefined

  protected constructor(options: AttemptOptions, deadlines: Deadlines) {
    super(options.timeouts.connectMs, deadlines, options.totalMs)
    this.options = options
  }

  override fail(error: Error): void {
    if (this.onReusedConnection && this.isStale(error)) this.settle({ kind: 'staleSocket', error })
    else super.fail(error)
  }

  /** Whether this is how it shows that the upstream had closed an idle connection. */
  protected abstract isStale(error: Error): boolean

  /** Whether the upstream takes no more of the body just now. */
  protected abstract get isHeldBack(): boolean

  protected override tooLate(): ReturnType<Exchange<AttemptOutcome>['tooLate']> {
    const clientIsSlow = this.#sendingSince !== undefined && !this.isHeldBack
    return clientIsSlow ? { kind: 'bodyStalled' } : super.tooLate()
  }

  /** Opens the body, which the caller then sends. */
  protected open(body: OutgoingBody): Readable {
    return body.open().once('error', () => this.abort()) // the client broke off: nobody waits for an answer
  }

  /** The body begins to flow. `touch` the timer with each piece. */
  protected sending(): void {
    this.#sendingSince = this.now()
    this.timer.start(this.options.timeouts.idleMs)
  }

  /** All of the request has been sent. */
  protected sent(): void {
    if (this.settled) return
    if (this.#sendingSince !== undefined) this.prolong(this.now() - this.#sendingSince)
    this.#sendingSince = undefined
    this.wait(this.options.timeouts.firstByteMs)
  }
}

/** Whether the error is the system's for a connection that the other side has closed. */
export function isReset(error: Error): boolean {
  return 'code' in error && (error.code === 'ECONNRESET' || error.code === 'EPIPE')
}
