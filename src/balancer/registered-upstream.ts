import { CircuitBreaker, type CircuitBreakerOptions, type EjectionCause } from '../breaker/circuit-breaker.ts'
import type { Clock } from '../clock.ts'
import type { Upstream } from '../topology/topology.ts'
import { type Target, targetOf } from '../transport/transport.ts'

/**
 * How an upstream stands in the walk.
 *
 * - `eligible`: may be chosen
 * - `last`: ejected, but above the ejection cap: chosen only behind all eligible ones
 * - `ejected`: not chosen, but for the probe that its breaker lets through
 * - `off`: draining, warming or gone: it has no point on the ring
 */
export type Standing = 'eligible' | 'last' | 'ejected' | 'off'

/** An upstream with what we know of it beyond the topology: its load and its health. Outlives topology changes. */
export class RegisteredUpstream {
  readonly breaker: CircuitBreaker
  #spec: Upstream
  #target: Target
  standing: Standing = 'off'
  /** The last of the replacements of all members that it was part of: see `Standings`. */
  replacement = 0
  /** Requests in flight, from the choice to the end of the answer's body. */
  inFlight = 0
  /** WebSockets and long-lived requests, which are no part of the load. */
  longLived = 0
  /** What the active health checks say. */
  healthy = true
  /** Clock time when its ramp began; undefined when it has its whole capacity. */
  rampSince: number | undefined
  /** Weight times slow-start ramp, as the sums of the load bound have it. */
  effectiveWeight = 0

  constructor(spec: Upstream, breaker: CircuitBreakerOptions, clock: Clock, onBreakerChange: () => void) {
    this.#spec = spec
    this.#target = targetOf(spec.url)
    this.breaker = new CircuitBreaker(breaker, clock, onBreakerChange)
  }

  /** As the newest topology describes it. */
  get spec(): Upstream {
    return this.#spec
  }

  /** From now on it is what `spec` says; `target`: where its URL points. */
  describe(spec: Upstream, target: Target): void {
    this.#spec = spec
    this.#target = target
  }

  /** Where `spec.url` points. */
  get target(): Target {
    return this.#target
  }

  get id(): string {
    return this.#spec.id
  }

  get weight(): number {
    return this.#spec.weight
  }

  /** Whether anything of ours still runs there. */
  get busy(): boolean {
    return this.inFlight > 0 || this.longLived > 0
  }

  /** Whether its requests and its weight are part of the sums of the load bound. */
  get bearsLoad(): boolean {
    return this.standing === 'eligible' || this.standing === 'last'
  }

  /** Why it should not be chosen, were there no cap on ejections; undefined when all is well. */
  get ejectionCause(): EjectionCause | undefined {
    return this.breaker.openedBy() ?? (this.healthy ? undefined : 'answers')
  }
}
