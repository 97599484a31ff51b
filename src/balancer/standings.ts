import type { EjectionCause } from '../breaker/circuit-breaker.ts'
import type { Clock } from '../clock.ts'
import type { ProxyEventEmitter } from '../observe/events.ts'
import type { LoadTotals } from './capacity.ts'
import { capEjections } from './ejection-cap.ts'
import type { RegisteredUpstream } from './registered-upstream.ts'
import { rampFactor } from './slow-start.ts'

/**
 * Decides how each upstream on the ring stands, and keeps the sums that the load bound needs. Decides when a breaker,
 * a health check or the topology changed, not for each request.
 */
export class Standings implements LoadTotals {
  readonly #maxEjectionPercent: number
  readonly #rampMs: number
  readonly #clock: Clock
  readonly #events: ProxyEventEmitter
  #members: readonly RegisteredUpstream[] = []
  /** How often members were replaced. */
  #replacements = 0
  /** In the order of their ejection. */
  readonly #ejected = new Map<RegisteredUpstream, EjectionCause>()
  #ramping = false
  #summedAt = 0
  #inFlight = 0
  #weight = 0
  #count = 0
  #panic = false

  constructor(
    options: { maxEjectionPercent: number; rampMs: number },
    clock: Clock,
    events: ProxyEventEmitter,
  ) {
    this.#maxEjectionPercent = options.maxEjectionPercent
    this.#rampMs = options.rampMs
    this.#clock = clock
    this.#events = events
  }

  /** Requests in flight on the upstreams that bear load: the eligible ones, and those above the ejection cap. */
  get inFlight(): number {
    return this.#inFlight
  }

  /** Their weights, each times its ramp. */
  get weight(): number {
    return this.#weight
  }

  get count(): number {
    return this.#count
  }

  /** Whether more is ejected than the cap allows. */
  get panic(): boolean {
    return this.#panic
  }

  /** Other upstreams are on the ring, or the same with other weights. */
  replace(members: readonly RegisteredUpstream[]): void {
    // Marked, not looked up in a set: thousands of upstreams are compared here in one turn of the event loop.
    this.#replacements += 1
    for (const upstream of members) upstream.replacement = this.#replacements
    for (const upstream of this.#members) if (!this.#isOnRing(upstream)) upstream.standing = 'off'
    for (const upstream of this.#ejected.keys()) if (!this.#isOnRing(upstream)) this.#ejected.delete(upstream)
    this.#members = members
    this.assess()
  }

  #isOnRing({ replacement }: RegisteredUpstream): boolean {
    return replacement === this.#replacements
  }

  /** Decides anew for every upstream on the ring. */
  assess(): void {
    for (const upstream of this.#members) {
      const cause = upstream.ejectionCause
      if (cause !== undefined) this.#ejected.set(upstream, cause)
      else if (this.#ejected.size > 0) this.#ejected.delete(upstream)
    }
    const { excluded, lastResort, panic } = capEjections(
      this.#members,
      this.#ejected,
      this.#maxEjectionPercent,
    )
    this.#panic = panic
    const moved: RegisteredUpstream[] = []
    for (const upstream of this.#members) {
      const before = upstream.standing
      if (this.#ejected.size === 0) upstream.standing = 'eligible'
      else
        upstream.standing = excluded.has(upstream)
          ? 'ejected'
          : lastResort.has(upstream)
            ? 'last'
            : 'eligible'
      if ((before === 'ejected') === (upstream.standing === 'ejected')) continue
      // Its caches are still warm, but its queues and pools are not: it comes back as a new one does.
      if (upstream.standing === 'eligible') upstream.rampSince = this.#clock.now()
      moved.push(upstream)
    }
    this.#sum()
    for (const upstream of moved) this.#report(upstream)
  }

  /** Brings `weight` up to date while upstreams ramp up, in steps of a thousandth; costs nothing while none does. */
  followRamps(): void {
    if (this.#ramping && this.#clock.now() - this.#summedAt >= this.#rampMs / 1_000) this.#sum()
  }

  /** A request was placed on `upstream`. */
  occupy(upstream: RegisteredUpstream): void {
    upstream.inFlight += 1
    if (upstream.bearsLoad) this.#inFlight += 1
  }

  /** A request has left `upstream`, which may have left the ring meanwhile. */
  free(upstream: RegisteredUpstream): void {
    upstream.inFlight -= 1
    if (upstream.bearsLoad) this.#inFlight -= 1
  }

  #report(upstream: RegisteredUpstream): void {
    const cause = this.#ejected.get(upstream)
    if (upstream.standing !== 'ejected') this.#events.emit('recovery', { upstream: upstream.id })
    else if (cause !== undefined) this.#events.emit('ejection', { upstream: upstream.id, cause })
  }

  #sum(): void {
    const now = this.#clock.now()
    this.#summedAt = now
    this.#inFlight = 0
    this.#weight = 0
    this.#count = 0
    this.#ramping = false
    for (const upstream of this.#members) {
      const share = upstream.rampSince === undefined ? 1 : rampFactor(now, upstream.rampSince, this.#rampMs)
      if (share === 1) upstream.rampSince = undefined
      upstream.effectiveWeight = upstream.weight * share
      if (!upstream.bearsLoad) continue
      this.#ramping ||= upstream.rampSince !== undefined
      this.#inFlight += upstream.inFlight
      this.#weight += upstream.effectiveWeight
      this.#count += 1
    }
  }
}
