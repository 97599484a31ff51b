import type { Balancer } from '../balancer/balancer.ts'
import type { CircuitState } from '../breaker/circuit-breaker.ts'
import type { SourceStatus, TopologyFeed, UpstreamState } from '../topology/topology.ts'

/** What `proxy.status()` tells: a plain object that can be sent as JSON. Reading it changes nothing. */
export interface ProxyStatus {
  /** Revision of the topology in use, in decimal (64 bits: too large for a number); null before the first one. */
  readonly revision: string | null
  /** How often the source's revisions went back. */
  readonly epoch: number
  /** Milliseconds since this topology is in use; null before the first one. */
  readonly topologyAgeMs: number | null
  /** Entries are refused or held, so a gateway that starts now may differ. */
  readonly degraded: boolean
  /** Ids of upstreams that are served on though the source no longer has them: too many disappeared at once. */
  readonly held: readonly string[]
  /** Ids of the gateways that place keys otherwise than this one. */
  readonly digestMismatch: readonly string[]
  readonly source: SourceStatus
  readonly ring: {
    /** Equal on gateways that give every key the same owners; null before the first topology. */
    readonly digest: string | null
    /** Points of an upstream of weight 1. */
    readonly virtualNodes: number
    /** Heaviest share over the mean share. */
    readonly heaviestOverMean: number | null
  }
  /** More upstreams are ejected than the ejection cap allows. */
  readonly panic: boolean
  /** Requests in flight, on upstreams that left too. */
  readonly inFlight: number
  readonly upstreams: readonly UpstreamStatus[]
}

export interface UpstreamStatus {
  readonly id: string
  readonly url: string
  readonly weight: number
  readonly state: UpstreamState
  readonly zone?: string
  readonly metadata?: Readonly<Record<string, unknown>>
  readonly inFlight: number
  /** WebSockets and long-lived requests. */
  readonly longLived: number
  /** Requests in flight it may have just now; null where nothing bounds it. */
  readonly capacity: number | null
  readonly breaker: CircuitState
  /** What the active health checks say. */
  readonly healthy: boolean
  /** Whether it may be chosen now; false also for one above the ejection cap, which is chosen behind all others. */
  readonly eligible: boolean
  /** Share of the keys it owns, in [0, 1]. */
  readonly share: number
}

/** Describes a proxy at this moment. */
export function describeStatus(
  balancer: Balancer,
  feed: Pick<TopologyFeed, 'status' | 'disagreeing'>,
  virtualNodes: number,
): ProxyStatus {
  const { placement, registry } = balancer
  const shares = placement?.ring.shares() ?? new Map<string, number>()
  const upstreams = [...registry.present].map((upstream): UpstreamStatus => {
    const { id, url, weight, state, zone, metadata } = upstream.spec
    return {
      ...{ id, url, weight, state },
      ...(zone !== undefined && { zone }),
      ...(metadata !== undefined && { metadata }),
      inFlight: upstream.inFlight,
      longLived: upstream.longLived,
      capacity: balancer.capacityOf(upstream) ?? null,
      breaker: upstream.breaker.state(),
      healthy: upstream.healthy,
      eligible: upstream.standing === 'eligible',
      share: shares.get(id) ?? 0,
    }
  })
  return {
    revision: placement?.topology.revision.toString() ?? null,
    epoch: placement?.topology.epoch ?? 0,
    topologyAgeMs: balancer.placementAgeMs ?? null,
    degraded: (placement?.topology.degraded ?? false) || balancer.beyondRingLimit,
    held: placement?.topology.held ?? [],
    digestMismatch: feed.disagreeing ?? [],
    source: { ...feed.status },
    ring: {
      digest: placement?.ring.digest ?? null,
      virtualNodes,
      heaviestOverMean: shares.size > 0 ? Math.max(...shares.values()) * shares.size : null,
    },
    panic: balancer.panic,
    inFlight: registry.inFlight,
    upstreams: upstreams.sort((a, b) => (a.id < b.id ? -1 : 1)),
  }
}
