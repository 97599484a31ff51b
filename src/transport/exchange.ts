import type { ClientRequest } from 'node:http'
import type { Clock } from '../clock.ts'
import { PhaseTimer } from './phase-timer.ts'
import type { OutgoingRequest } from './transport.ts'
import { whenConnected } from './when-connected.ts'

/** The ends that a request and an upgrade have in common. */
type CommonOutcome =
  | { readonly kind: 'connectFailed' | 'broken'; readonly error: Error }
  | { readonly kind: 'timedOut' | 'aborted' }

/**
 * One client request under way: settles its outcome once, knows whether the connection stood (before that nothing
 * was sent), and limits the phase it is in.
 */
export abstract class Exchange<Outcome extends { kind: string }> {
  readonly outcome: Promise<Outcome | CommonOutcome>
  protected readonly timer: PhaseTimer
  readonly #request: OutgoingRequest
  readonly #connectMs: number
  #resolve: (outcome: Outcome | CommonOutcome) => void = () => {}
  #clientRequest: ClientRequest | undefined
  #connected = false
  #settled = false

  protected constructor(request: OutgoingRequest, connectMs: number, clock: Clock) {
    this.#request = request
    this.#connectMs = connectMs
    this.timer = new PhaseTimer(clock, () => this.#timedOut())
    this.outcome = new Promise((resolve) => {
      this.#resolve = resolve
    })
  }

  abort(): void {
    this.settle({ kind: 'aborted' })
    this.#clientRequest?.destroy()
  }

  fail(error: Error): void {
    this.settle({ kind: this.#connected ? 'broken' : 'connectFailed', error })
  }

  protected get settled(): boolean {
    return this.#settled
  }

  protected get clientRequest(): ClientRequest | undefined {
    return this.#clientRequest
  }

  protected get connected(): boolean {
    return this.#connected
  }

  /** Takes the client request before anything of it is sent. `queueMs`: how long it may wait for a free connection. */
  protected start(clientRequest: ClientRequest, queueMs: number, onConnected: () => void): void {
    this.#clientRequest = clientRequest
    clientRequest.path = this.#request.path
    this.timer.start(queueMs)
    whenConnected(clientRequest, {
      connecting: () => this.timer.start(this.#connectMs),
      connected: () => {
        this.#connected = true
        onConnected()
      },
    })
  }

  protected settle(outcome: Outcome | CommonOutcome): void {
    if (this.#settled) return
    this.#settled = true
    this.timer.stop()
    this.#resolve(outcome)
  }

  #timedOut(): void {
    const error = new Error(`no connection within ${this.#connectMs} ms`)
    this.settle(this.#connected ? { kind: 'timedOut' } : { kind: 'connectFailed', error })
    this.#clientRequest?.destroy()
  }
}
