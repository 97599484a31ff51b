import type { Permit } from '../breaker/circuit-breaker.ts'
import type { Config } from '../config.ts'
import type { ProxyEventEmitter } from '../observe/events.ts'
import type { Upstream } from '../topology/topology.ts'
import { capacity } from './capacity.ts'
import { Lease } from './lease.ts'
import type { Placement } from './placement.ts'
import type { RegisteredUpstream } from './registered-upstream.ts'
import type { Standings } from './standings.ts'

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

/** Where a choice began: the placement, and the key's first owner there. */
type Origin = Pick<Lease, 'placement' | 'owner'>

/**
 * Chooses upstreams for requests. A choice is made without any `await`, so check and increment cannot be torn apart,
 * and allocates nothing for a candidate.
 */
export class Chooser {
  readonly #config: Config
  readonly #events: ProxyEventEmitter
  readonly #standings: Standings
  readonly #mayOverflow: boolean

  constructor(config: Config, standings: Standings, events: ProxyEventEmitter) {
    this.#config = config
    this.#events = events
    this.#standings = standings
    this.#mayOverflow = config.boundedLoad === false || config.boundedLoad.overflow === 'next'
  }

  /** Walks the key's owners to the first that may take the request. */
  choose(placement: Placement, choice: Choice): Lease | NoUpstream {
    this.#standings.followRamps()
    const { walk, members } = placement
    walk.start(choice.position)
    const owner = members[walk.next()]
    if (!owner) return none('none-eligible')
    const origin = { placement, owner }
    const found = this.#firstWithRoom(origin, choice)
    if (found instanceof Lease) return found
    if (found && !this.#mayOverflow) return none('full')
    const last = this.#standings.panic && this.#lastResort(origin, choice, found !== undefined)
    if (last) return last
    if (!found) return choice.tried.length > 0 ? none('all-tried') : this.#noneEligible(placement)
    // The capacities of all that bear load sum to more than their load (see capacity.ts): only a request that leaves
    // some of them out, a retry, can find the others full. A limit on long-lived requests holds for retries too.
    if (choice.longLived || choice.tried.length === 0) return none('full')
    return this.#leaseBeyondCapacity(found, origin, choice, found.breaker.tryAcquire())
  }

  /**
   * The upstream of a released lease once more: where a retry goes that is bound to its owner. As any other retry it
   * may pass the load bound, but not with `reject`, nor pass the limit on long-lived requests.
   */
  chooseAgain(lease: Lease, choice: Choice): Lease | NoUpstream {
    this.#standings.followRamps()
    const { upstream } = lease
    const full = this.#isFull(upstream, choice)
    if (full && (choice.longLived || !this.#mayOverflow)) return none('full')
    const permit = upstream.breaker.tryAcquire()
    if (permit === undefined && upstream.standing !== 'last') return this.#noneEligible(lease.placement)
    return full
      ? this.#leaseBeyondCapacity(upstream, lease, choice, permit)
      : this.#lease(upstream, lease, choice, permit)
  }

  /** How many requests `upstream` may have in flight now; undefined where nothing bounds it. */
  capacityOf(upstream: RegisteredUpstream): number | undefined {
    this.#standings.followRamps()
    return this.#boundOf(upstream)
  }

  /**
   * A lease; or, when only full upstreams were met, the least loaded of them (with `reject`, the first). Goes on with
   * the walk that has met the owner.
   */
  #firstWithRoom(origin: Origin, choice: Choice): Lease | RegisteredUpstream | undefined {
    const { walk, members } = origin.placement
    let leastLoaded: RegisteredUpstream | undefined
    let upstream: RegisteredUpstream | undefined = origin.owner
    for (let rank = 1; upstream; rank += 1, upstream = members[walk.next()]) {
      if (!mayBeAsked(upstream) || wasTried(upstream, choice.tried)) continue
      if (this.#isFull(upstream, choice)) {
        if (upstream.standing !== 'eligible') continue
        if (!this.#mayOverflow) return upstream
        if (!leastLoaded || isLessLoaded(upstream, leastLoaded)) leastLoaded = upstream
        continue
      }
      const permit = upstream.breaker.tryAcquire()
      if (!permit) continue
      if (leastLoaded) this.#reportOverflow(upstream, origin, rank)
      return this.#lease(upstream, origin, choice, permit)
    }
    return leastLoaded
  }

  /** The first upstream with room among those above the ejection cap. Their breakers are open: most get no permit. */
  #lastResort(origin: Origin, choice: Choice, overflows: boolean): Lease | undefined {
    const { walk, members } = origin.placement
    walk.start(choice.position)
    let upstream = members[walk.next()]
    for (let rank = 1; upstream; rank += 1, upstream = members[walk.next()]) {
      if (upstream.standing !== 'last' || wasTried(upstream, choice.tried)) continue
      if (this.#isFull(upstream, choice)) continue
      if (overflows) this.#reportOverflow(upstream, origin, rank)
      return this.#lease(upstream, origin, choice, upstream.breaker.tryAcquire())
    }
    return undefined
  }

  #reportOverflow({ id }: RegisteredUpstream, { owner }: Origin, rank: number): void {
    this.#events.emit('overflow', { upstream: id, owner: owner.id, rank })
  }

  #isFull(upstream: RegisteredUpstream, choice: Choice): boolean {
    if (choice.longLived) return upstream.longLived >= this.#config.limits.longLivedPerUpstream
    const bound = this.#boundOf(upstream)
    return bound !== undefined && upstream.inFlight >= bound
  }

  #boundOf({ standing, effectiveWeight }: RegisteredUpstream): number | undefined {
    const { boundedLoad } = this.#config
    if (boundedLoad === false || standing === 'off' || this.#standings.weight === 0) return undefined
    return capacity(boundedLoad, this.#standings, effectiveWeight)
  }

  #leaseBeyondCapacity(
    upstream: RegisteredUpstream,
    origin: Origin,
    choice: Choice,
    permit: Permit | undefined,
  ): Lease {
    this.#events.emit('overCapacity', { upstream: upstream.id })
    return this.#lease(upstream, origin, choice, permit)
  }

  #lease(
    upstream: RegisteredUpstream,
    origin: Origin,
    { longLived }: Choice,
    permit: Permit | undefined,
  ): Lease {
    const account = longLived ? longLivedRequests : this.#standings
    account.occupy(upstream)
    return new Lease(upstream, origin, permit, account)
  }

  /** When the first open breaker may be probed, the answer may be another one. */
  #noneEligible({ members }: Placement): NoUpstream {
    const times = members.flatMap(({ breaker }) => breaker.retryAt() ?? [])
    if (times.length === 0) return none('none-eligible')
    return {
      reason: 'none-eligible',
      retryAfterMs: Math.max(0, Math.min(...times) - this.#config.clock.now()),
    }
  }
}

/** WebSockets and long-lived requests: no part of the load. */
const longLivedRequests = {
  occupy(upstream: RegisteredUpstream): void {
    upstream.longLived += 1
  },
  free(upstream: RegisteredUpstream): void {
    upstream.longLived -= 1
  },
}

/** The answer when nothing tells when an upstream will be free again. */
export function none(reason: NoUpstream['reason']): NoUpstream {
  return { reason, retryAfterMs: 1_000 }
}

/** Whether the walk asks this upstream for room: all that are well, and those whose breaker may want a probe. */
function mayBeAsked(upstream: RegisteredUpstream): boolean {
  return upstream.standing === 'eligible' || (upstream.healthy && upstream.breaker.state() === 'half-open')
}

function isLessLoaded(one: RegisteredUpstream, other: RegisteredUpstream): boolean {
  return one.inFlight * other.weight < other.inFlight * one.weight
}

/** An upstream that has moved since is another server: it was not tried. */
function wasTried(upstream: RegisteredUpstream, tried: readonly Upstream[]): boolean {
  for (const { id, url } of tried) if (id === upstream.id && url === upstream.spec.url) return true
  return false
}
