import type { Clock } from '../clock.ts'
import type { EjectionCause, FailureKind } from './failure-kind.ts'
import { OpenPeriod } from './open-period.ts'
import type { CircuitBreakerOptions } from './options.ts'
import { type Permit, type Result, type Settler, SingleUsePermit } from './permit.ts'
import { TripPolicy } from './trip-policy.ts'

export type { EjectionCause, FailureKind } from './failure-kind.ts'
export type { CircuitBreakerOptions } from './options.ts'
export type { Permit } from './permit.ts'

/** Closed lets everything through, open nothing, half-open a few probes. */
export type CircuitState = 'closed' | 'open' | 'half-open'

export interface CircuitTransition {
  readonly from: CircuitState
  readonly to: CircuitState
  /** The last failure, when it was one that opened the breaker. */
  readonly cause?: FailureKind
}

/**
 * A state with all that is only known in it. The object is its own generation: a permit that was given out
 * under another one is stale, even if the state is called the same again.
 */
type Generation =
  | { readonly state: 'closed'; readonly since: number; policy: TripPolicy | undefined }
  | { readonly state: 'open'; readonly by: EjectionCause; readonly until: number }
  | { readonly state: 'half-open'; readonly by: EjectionCause; probes: number }

/**
 * The circuit breaker of one upstream. Reading it changes nothing: an open period that has passed reads as
 * half-open, and the transition is made by the request that asks for the first probe.
 *
 * Nobody waits for a probe's result; who gets no permit goes on to the next owner. One good probe closes, one
 * failed probe opens again, whatever the kind of its failure.
 */
export class CircuitBreaker implements Settler<Generation> {
  readonly #options: CircuitBreakerOptions
  readonly #clock: Clock
  readonly #onTransition: (transition: CircuitTransition) => void
  readonly #openPeriod: OpenPeriod
  #generation: Generation

  /** `onTransition` is called after each transition, and must not throw. */
  constructor(
    options: CircuitBreakerOptions,
    clock: Clock,
    onTransition: (transition: CircuitTransition) => void = () => {},
  ) {
    this.#options = options
    this.#clock = clock
    this.#onTransition = onTransition
    this.#openPeriod = new OpenPeriod(options, () => clock.random())
    this.#generation = this.#closed()
  }

  state(): CircuitState {
    const { state } = this.#generation
    return state === 'open' && this.retryAt() === undefined ? 'half-open' : state
  }

  /** Why it opened; undefined while it is closed. A failed probe counts by its own kind. */
  openedBy(): EjectionCause | undefined {
    return this.#generation.state === 'closed' ? undefined : this.#generation.by
  }

  /** The clock's time in milliseconds when it may be probed; undefined unless it is open. */
  retryAt(): number | undefined {
    const generation = this.#generation
    return generation.state === 'open' && this.#clock.now() < generation.until ? generation.until : undefined
  }

  /** Leave to send one request now, to be settled by the caller; undefined when there is none. */
  tryAcquire(): Permit | undefined {
    if (this.#generation.state === 'open' && this.retryAt() === undefined) {
      this.#transition({ state: 'half-open', by: this.#generation.by, probes: 0 })
    }
    const generation = this.#generation
    if (generation.state === 'open') return undefined
    if (generation.state === 'half-open') {
      if (generation.probes >= this.#options.halfOpenProbes) return undefined
      generation.probes += 1
    }
    return new SingleUsePermit(this, generation)
  }

  /** For permits only: what came of the request that one was given for. */
  settle(issuedIn: Generation, result: Result): void {
    const generation = this.#generation
    if (generation !== issuedIn || generation.state === 'open') return
    if (generation.state === 'half-open') this.#settleProbe(generation, result)
    else if (result !== 'ignored') this.#count(generation, result)
  }

  #count(generation: Generation & { state: 'closed' }, result: Exclude<Result, 'ignored'>): void {
    const now = this.#clock.now()
    // Made with the first result: thousands of upstreams may come at once, and most are asked later.
    generation.policy ??= new TripPolicy(this.#options)
    if (result === 'success') {
      generation.policy.success(now)
      return
    }
    const by = generation.policy.failure(result.kind, result.key, now)
    if (by !== undefined) this.#open(by, now - generation.since, result.kind)
  }

  #settleProbe(generation: Generation & { state: 'half-open' }, result: Result): void {
    if (result === 'success') this.#transition(this.#closed())
    else if (result === 'ignored') generation.probes -= 1
    else this.#open(result.kind === 'connect' ? 'connect' : 'answers', 0, result.kind)
  }

  #open(by: EjectionCause, closedMs: number, cause: FailureKind): void {
    const until = this.#clock.now() + this.#openPeriod.next(closedMs)
    this.#transition({ state: 'open', by, until }, cause)
  }

  #closed(): Generation {
    return { state: 'closed', since: this.#clock.now(), policy: undefined }
  }

  /** The only way from one state to another. */
  #transition(next: Generation, cause?: FailureKind): void {
    const from = this.#generation.state
    this.#generation = next
    this.#onTransition(cause === undefined ? { from, to: next.state } : { from, to: next.state, cause })
  }
}
