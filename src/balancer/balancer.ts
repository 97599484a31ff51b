import type { Permit } from '../breaker/circuit-breaker.ts'
import type { Clock } from '../clock.ts'
import type { Config } from '../config.ts'
import type { ProxyEventEmitter } from '../observe/events.ts'
import { HashRing } from '../ring/hash-ring.ts'
import type { Topology, Upstream } from '../topology/topology.ts'
import { capacity } from './capacity.ts'
import { Lease } from './lease.ts'
import { Placement } from './placement.ts'
import { RegisteredUpstream } from './registered-upstream.ts'
import { fitOnRing } from './ring-limit.ts'
import { Standings } from './standings.ts'
import { UpstreamRegistry } from './upstream-registry.ts'

/** Why no upstream could be chosen, and in how many milliseconds that may change. */
export interface NoUpstream {
  readonly reason: 'no-topology' | 'none-eligible' | 'full' | 'all-tried'
  readonly retryAfterMs: number
}

/** One question to the balancer. */
export interface Choice {
  /** The key's position on the ring. */
  readonly position: bigint
  /** Upstreams that this request has tried, as they were described then; empty unless it is a retry. */
  readonly tried: readonly Upstream[]
  /** A WebSocket or long-lived request: held against a limit of its own, no part of the load. */
  readonly longLived: boolean
}

/** What becomes of a request when nothing tells when an upstream will be free again. */
const defaultRetryAfterMs = 1_000

/**
 * The one mutable heart: the placement that requests choose on, and the load and health of each upstream.
 * A choice is made without any `await`, so check and increment cannot be torn apart.
 */
export class Balancer {
  readonly registry: UpstreamRegistry
  readonly #config: Config
  readonly #clock: Clock
  readonly #events: ProxyEventEmitter
  readonly #rampMs: number
  readonly #mayOverflow: boolean
  readonly #standings: Standings
  #placement: Placement | undefined
  #beyondLimit: ReadonlySet<string> = new Set()

  constructor(config: Config, events: ProxyEventEmitter) {
    this.#config = config
    this.#clock = config.clock
    this.#events = events
    this.#rampMs = config.slowStart === false ? 0 : config.slowStart.durationMs
    this.#mayOverflow = config.boundedLoad === false || config.boundedLoad.overflow === 'next'
    const { maxEjectionPercent } = config.circuitBreaker
    this.#standings = new Standings({ maxEjectionPercent, rampMs: this.#rampMs }, config.clock, events)
    this.registry = new UpstreamRegistry(
      (spec) =>
        new RegisteredUpstream(spec, config.circuitBreaker, config.clock, () => this.#standings.assess()),
    )
  }

  /** The placement in use, or undefined before the first topology. */
  get placement(): Placement | undefined {
    return this.#placement
  }

  /** Whether more is ejected than the cap allows. */
  get panic(): boolean {
    return this.#standings.panic
  }

  /** Whether upstreams were left out because the ring is full. */
  get beyondRingLimit(): boolean {
    return this.#beyondLimit.size > 0
  }

  /** Builds the new ring beside the old one and swaps it in. */
  update(topology: Topology): void {
    const before = this.#placement
    const started = this.#clock.now()
    const active = this.#fit(topology.upstreams.filter(({ state }) => state === 'active'))
    const ring = before ? before.ring.with(active) : new HashRing(active, this.#config.ring)
    const warm = new Set(
      [...this.registry.present].filter(({ spec }) => spec.state !== 'warming').map(({ id }) => id),
    )
    const change = this.registry.update(topology.upstreams)
    const members = ring.members.flatMap(({ id }) => this.registry.get(id) ?? [])
    // All of a first snapshot are as warm as they will be: whoever served them before is gone.
    if (before)
      for (const upstream of members) if (!warm.has(upstream.id)) upstream.rampSince = this.#clock.now()
    this.#placement = new Placement(topology, ring, members)
    this.#standings.replace(members)
    const { revision, epoch } = topology
    const buildMilliseconds = this.#clock.now() - started
    this.#events.emit('topology', { revision, epoch, digest: ring.digest, ...change, buildMilliseconds })
  }

  /** A health check has changed its mind about an upstream. */
  setHealthy(id: string, healthy: boolean): void {
    const upstream = this.registry.get(id)
    if (!upstream) return
    upstream.healthy = healthy
    this.#standings.assess()
  }

  /** Walks the key's owners to the first that may take the request. */
  choose(choice: Choice): Lease | NoUpstream {
    const placement = this.#placement
    if (!placement) return this.#none('no-topology')
    this.#standings.followRamps()
    const owner = placement.ownerAt(choice.position)
    if (!owner) return this.#none('none-eligible')
    const found = this.#firstWithRoom(placement, owner, choice)
    if (found instanceof Lease) return found
    if (found && !this.#mayOverflow) return this.#none('full')
    const last = this.#lastResort(placement, owner, choice)
    if (last) return last
    if (!found) return this.#none(choice.tried.length > 0 ? 'all-tried' : 'none-eligible')
    // The capacities of all that bear load sum to more than their load (see capacity.ts): only a request that leaves
    // some of them out, a retry, can find the others full. A limit on long-lived requests holds for retries too.
    if (choice.longLived || choice.tried.length === 0) return this.#none('full')
    this.#events.emit('overCapacity', { upstream: found.id })
    return this.#lease(found, placement, owner, choice, found.breaker.tryAcquire())
  }

  /** The upstream of a released lease once more: where a retry goes that is bound to its owner. */
  chooseAgain({ upstream, placement, owner }: Lease, choice: Choice): Lease | NoUpstream {
    const permit = upstream.breaker.tryAcquire()
    if (permit === undefined && upstream.standing !== 'last') return this.#none('none-eligible')
    if (this.#isFull(upstream, choice)) this.#events.emit('overCapacity', { upstream: upstream.id })
    return this.#lease(upstream, placement, owner, choice, permit)
  }

  /** How many requests `upstream` may have in flight now; undefined where nothing bounds it. */
  capacityOf(upstream: RegisteredUpstream): number | undefined {
    const { boundedLoad } = this.#config
    if (boundedLoad === false || upstream.standing === 'off' || this.#standings.weight === 0) return undefined
    return capacity(boundedLoad, this.#standings, upstream.effectiveWeight(this.#clock.now(), this.#rampMs))
  }

  /** A lease; or, when only full upstreams were met, the least loaded of them (with `reject`, the first). */
  #firstWithRoom(
    placement: Placement,
    owner: RegisteredUpstream,
    choice: Choice,
  ): Lease | RegisteredUpstream | undefined {
    const { walk, members } = placement
    let leastLoaded: RegisteredUpstream | undefined
    walk.start(choice.position)
    for (
      let rank = 1, upstream = members[walk.next()];
      upstream;
      rank += 1, upstream = members[walk.next()]
    ) {
      if (!mayBeAsked(upstream) || wasTried(upstream, choice.tried)) continue
      if (this.#isFull(upstream, choice)) {
        if (upstream.standing !== 'eligible') continue
        if (!this.#mayOverflow) return upstream
        if (!leastLoaded || upstream.inFlight * leastLoaded.weight < leastLoaded.inFlight * upstream.weight) {
          leastLoaded = upstream
        }
        continue
      }
      const permit = upstream.breaker.tryAcquire()
      if (!permit) continue
      if (leastLoaded) this.#events.emit('overflow', { upstream: upstream.id, owner: owner.id, rank })
      return this.#lease(upstream, placement, owner, choice, permit)
    }
    return leastLoaded
  }

  /** The first upstream with room among those above the ejection cap. Their breakers are open: most get no permit. */
  #lastResort(placement: Placement, owner: RegisteredUpstream, choice: Choice): Lease | undefined {
    if (!this.#standings.panic) return undefined
    const { walk, members } = placement
    walk.start(choice.position)
    for (let upstream = members[walk.next()]; upstream; upstream = members[walk.next()]) {
      if (upstream.standing !== 'last' || wasTried(upstream, choice.tried)) continue
      if (this.#isFull(upstream, choice)) continue
      return this.#lease(upstream, placement, owner, choice, upstream.breaker.tryAcquire())
    }
    return undefined
  }

  #isFull(upstream: RegisteredUpstream, choice: Choice): boolean {
    if (choice.longLived) return upstream.longLived >= this.#config.limits.longLivedPerUpstream
    const bound = this.capacityOf(upstream)
    return bound !== undefined && upstream.inFlight >= bound
  }

  #lease(
    upstream: RegisteredUpstream,
    placement: Placement,
    owner: RegisteredUpstream,
    choice: Choice,
    permit: Permit | undefined,
  ): Lease {
    if (choice.longLived) {
      upstream.longLived += 1
      return new Lease(upstream, placement, owner, permit, () => {
        upstream.longLived -= 1
      })
    }
    this.#standings.occupy(upstream)
    return new Lease(upstream, placement, owner, permit, () => this.#standings.free(upstream))
  }

  #none(reason: NoUpstream['reason']): NoUpstream {
    if (reason !== 'none-eligible') return { reason, retryAfterMs: defaultRetryAfterMs }
    const times = this.#placement?.members.flatMap(({ breaker }) => breaker.retryAt() ?? []) ?? []
    const now = this.#clock.now()
    return {
      reason,
      retryAfterMs: times.length > 0 ? Math.max(0, Math.min(...times) - now) : defaultRetryAfterMs,
    }
  }

  #fit(active: readonly Upstream[]): readonly Upstream[] {
    const { fitting, beyond } = fitOnRing(
      active,
      this.#config.ring.virtualNodes,
      this.#config.limits.ringPoints,
    )
    for (const { id } of beyond) {
      if (this.#beyondLimit.has(id)) continue
      const message = `no room for its points on the ring, which is limited to ${this.#config.limits.ringPoints}`
      this.#events.emit('refused', { entry: id, reason: 'limit', message })
    }
    this.#beyondLimit = new Set(beyond.map(({ id }) => id))
    return fitting
  }
}

/** Whether the walk asks this upstream for room: all that are well, and those whose breaker may want a probe. */
function mayBeAsked(upstream: RegisteredUpstream): boolean {
  return upstream.standing === 'eligible' || (upstream.healthy && upstream.breaker.state() === 'half-open')
}

/** An upstream that has moved since is another server: it was not tried. */
function wasTried(upstream: RegisteredUpstream, tried: readonly Upstream[]): boolean {
  for (const { id, url } of tried) if (id === upstream.id && url === upstream.spec.url) return true
  return false
}
