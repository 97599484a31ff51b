import type { ClientRequest } from 'node:http'
import { type Deadlines, PhaseTimer } from './phase-timer.ts'
import type { OutgoingRequest } from './transport.ts'
import { whenConnected } from './when-connected.ts'

/** The ends that a request and an upgrade have in common. */
type CommonOutcome =
  | { readonly kind: 'connectFailed' | 'broken'; readonly error: Error }
  | { readonly kind: 'queuedTooLong' | 'timedOut' | 'aborted' }

/** How far it is: waiting for the pool, for the connection, or on a connection that stands. */
type Stage = 'queued' | 'connecting' | 'new' | 'reused'

/**
 * One client request under way: settles its outcome once, knows whether the connection stood (before that nothing
 * was sent), and limits the phase it is in.
 */
export abstract class Exchange<Outcome extends { kind: string }> {
  readonly outcome: Promise<Outcome | CommonOutcome>
  protected readonly timer: PhaseTimer
  readonly #request: OutgoingRequest
  readonly #connectMs: number
  readonly #deadlines: Deadlines
  #deadline: number
  #resolve: (outcome: Outcome | CommonOutcome) => void = () => {}
  #clientRequest: ClientRequest | undefined
  #stage: Stage = 'queued'
  #settled = false

  /** `totalMs`: how long all the waiting may take together. */
  protected constructor(
    request: OutgoingRequest,
    connectMs: number,
    deadlines: Deadlines,
    totalMs = Number.POSITIVE_INFINITY,
  ) {
    this.#request = request
    this.#connectMs = connectMs
    this.#deadlines = deadlines
    this.#deadline = deadlines.now() + totalMs
    this.timer = new PhaseTimer(deadlines, () => {
      this.settle(this.tooLate())
      this.#clientRequest?.destroy()
    })
    this.outcome = new Promise((resolve) => {
      this.#resolve = resolve
    })
  }

  abort(): void {
    this.settle({ kind: 'aborted' })
    this.#clientRequest?.destroy()
  }

  fail(error: Error): void {
    this.settle({ kind: this.isConnected ? 'broken' : 'connectFailed', error })
  }

  protected get settled(): boolean {
    return this.#settled
  }

  protected get clientRequest(): ClientRequest | undefined {
    return this.#clientRequest
  }

  protected get isConnected(): boolean {
    return this.#stage === 'new' || this.#stage === 'reused'
  }

  /** Whether the connection had been idle: the upstream may have closed it before the request came. */
  protected get onReusedConnection(): boolean {
    return this.#stage === 'reused'
  }

  /** Takes the client request before anything of it is sent. `queueMs`: how long it may wait for a free connection. */
  protected start(clientRequest: ClientRequest, queueMs: number): void {
    this.#clientRequest = clientRequest
    clientRequest.path = this.#request.path
    this.wait(queueMs)
    whenConnected(clientRequest, this)
  }

  /** The connection is being made. */
  connecting(): void {
    this.#stage = 'connecting'
    this.wait(this.#connectMs)
  }

  /** The connection stands: what is sent from here on may have reached the upstream. */
  connected(connection: 'new' | 'reused'): void {
    this.#stage = connection
    this.onConnected()
  }

  protected abstract onConnected(): void

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
