import type { Clock } from '../clock.ts'
import type { RefusedEntryError } from '../errors.ts'
import type { Logger } from '../logger.ts'

/**
 * `active` takes keys. `draining` is off the ring and finishes its work. `warming` is being prepared and
 * gets no keys yet.
 */
export type UpstreamState = 'active' | 'draining' | 'warming'

/** One server that requests are forwarded to, as a topology source describes it. */
export interface Upstream {
  /** Stable name; placement depends on it alone, so a changed address moves no key. */
  readonly id: string
  /** `http:` or `https:` URL without credentials, query or fragment; may have a base path. */
  readonly url: string
  /** Share of the keys and of the capacity relative to the others: above 0, at most 100. Default 1. */
  readonly weight: number
  readonly state: UpstreamState
  /** Failure domain, carried to hooks and status. */
  readonly zone?: string
  /** Whatever the operator wants to find again in hooks and status. */
  readonly metadata?: Readonly<Record<string, unknown>>
}

/** The set of upstreams as read from a source at one revision. Immutable. */
export interface Topology {
  /** Which cluster this is: equal for gateways and upstreams that watch the same thing. */
  readonly id: string
  /** How often this source's revisions went back (etcd wiped or restored) while we watched. */
  readonly epoch: number
  /**
   * The source's revision when the set last changed, as far as it shows (64 bits: never a `number`). 0 for sources that
   * have none.
   */
  readonly revision: bigint
  /** Every upstream, whatever its state, sorted by id; ids are unique. */
  readonly upstreams: readonly Upstream[]
  /** Entries refused or served with their last good value at this revision: a gateway that starts now may differ. */
  readonly degraded: boolean
  /** Ids of upstreams that the source no longer has, served on because too many disappeared at once. */
  readonly held?: readonly string[]
}

/** What a source says about itself. */
export type SourceStatus =
  | { readonly state: 'connecting'; readonly error?: string; readonly diskCopy?: DiskCopy }
  | { readonly state: 'live' }
  | { readonly state: 'lost'; readonly error: string }
  | { readonly state: 'closed' }

/** The file that the topology came from, since the source could not be read since the start. */
export interface DiskCopy {
  readonly path: string
  /** Time since the source was read that it is a copy of, in milliseconds. */
  readonly ageMs: number
}

/** What a gateway tells the others about itself. */
export interface GatewayReport {
  readonly epoch: number
  readonly revision: bigint
  readonly digest: string
  /** All but the upstreams that placement depends on, the seed only as a hash. */
  readonly settings: Readonly<Record<string, string | number | boolean>>
  readonly degraded: boolean
  /** By the id of the upstream; those without requests are left out. */
  readonly requestsPerSecond: Readonly<Record<string, number>>
}

/** Receives what a source finds. None of these may throw. */
export interface TopologyObserver {
  /** A new whole topology, newer than all before it (by epoch, then revision). */
  onTopology(topology: Topology): void
  /** The status changed. */
  onStatus(status: SourceStatus): void
  /** One entry was refused: called once for each value, not again while that value stays. */
  onRefused(entry: string, error: RefusedEntryError): void
  /** These gateways place keys otherwise than this one does, by their reports; called again when they become others. */
  onDisagreement?(gateways: readonly string[]): void
}

/** What the proxy hands to a source that it opens. */
export interface SourceContext {
  readonly clock: Clock
  readonly logger: Logger
}

/** A source at work. */
export interface TopologyFeed {
  readonly status: SourceStatus
  /**
   * Reads the source again, past every cache (etcd: linearizable), and hands a newer topology to the observer
   * before it resolves. Calls that overlap share one read. Rejects with `TopologySourceError` when the source
   * cannot be read; the last good topology stays.
   */
  refresh(): Promise<void>
  /**
   * From now on tells the other gateways what `read` gives, on each change and every few seconds, and compares it with
   * what they tell. Only sources that gateways share have it.
   */
  report?(read: () => GatewayReport | undefined): void
  /** Ids of the gateways that place keys otherwise than this one. */
  readonly disagreeing?: readonly string[]
  /** Stops watching and leaves no handle open. Idempotent. */
  close(): Promise<void>
}

/**
 * Where upstreams come from: made by `staticTopology`, `fileTopology` or `etcdTopology`. A source is only a
 * description: each proxy opens a feed of its own, so two proxies given one source share nothing.
 */
export interface TopologySource {
  readonly kind: 'static' | 'file' | 'etcd'
  open(observer: TopologyObserver, context: SourceContext): TopologyFeed
}
