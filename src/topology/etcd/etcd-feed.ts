import type { Timer } from '../../clock.ts'
import { TopologySourceError } from '../../errors.ts'
import { DisappearanceGuard, type DisappearanceOptions } from '../disappearance-guard.ts'
import { FeedStatus } from '../feed-status.ts'
import { Pacer } from '../pacer.ts'
import type { SourceContext, SourceStatus, TopologyFeed, TopologyObserver, Upstream } from '../topology.ts'
import { UpstreamSet } from '../upstream-set.ts'
import type { EtcdConnection } from './connection.ts'
import { explain } from './explain.ts'
import { type SessionEnd, SessionLoop } from './session-loop.ts'
import { WatchSession } from './watch-session.ts'

export interface EtcdFeedSettings {
  readonly connection: EtcdConnection
  readonly reconcileIntervalMs: number
  readonly disappearance: Required<DisappearanceOptions>
  readonly decode: (value: Buffer, name: string) => Upstream
}

/** Keeps one set of upstreams over many sessions with etcd, and says how it stands with etcd. */
export class EtcdFeed implements TopologyFeed {
  readonly #settings: EtcdFeedSettings
  readonly #context: SourceContext
  readonly #status: FeedStatus
  readonly #set: UpstreamSet
  readonly #guard: DisappearanceGuard
  readonly #publishing: Pacer
  readonly #loop: SessionLoop
  #session: WatchSession | undefined
  #rereading: Promise<void> | undefined
  #reconcile: Timer | undefined

  constructor(settings: EtcdFeedSettings, observer: TopologyObserver, context: SourceContext) {
    const { connection, decode, disappearance } = settings
    this.#settings = settings
    this.#context = context
    this.#status = new FeedStatus((status) => observer.onStatus(status))
    this.#set = new UpstreamSet({
      prefix: connection.prefix,
      decode,
      onRefused: (key, error) => observer.onRefused(`${connection.prefix}${key}`, error),
    })
    this.#guard = new DisappearanceGuard(disappearance, context.clock, (topology) =>
      observer.onTopology(topology),
    )
    this.#publishing = new Pacer(
      () => observer.onTopology(this.#guard.take(this.#set.topology())),
      context.clock,
    )
    this.#loop = new SessionLoop({
      connection,
      clock: context.clock,
      session: (host) => this.#live(host),
      onFailure: (message) => this.#status.failed(message),
    })
  }

  get status(): SourceStatus {
    return this.#status.current
  }

  refresh(): Promise<void> {
    const { status } = this
    const session = this.#session
    if (session === undefined || status.state !== 'live') {
      const why = 'error' in status ? `: ${status.error}` : ''
      return Promise.reject(new TopologySourceError(`the etcd topology source is ${status.state}${why}`))
    }
    this.#rereading ??= this.#reread(session).finally(() => {
      this.#rereading = undefined
    })
    return this.#rereading
  }

  async close(): Promise<void> {
    this.#status.closed()
    this.#publishing.close()
    this.#guard.close()
    this.#session?.end(undefined)
    await this.#loop.close()
  }

  async #live(host: string): Promise<SessionEnd> {
    const session = new WatchSession({
      connection: this.#settings.connection,
      host,
      clock: this.#context.clock,
      // Nothing but this session's own snapshot moves the set before its watch stands.
      onListing: (listing) => this.#changed(this.#set.list(listing, this.#set.revision)),
      onWatching: () => {
        this.#status.live()
        this.#scheduleReconcile()
      },
      onChanges: (changes) => this.#changed(this.#set.apply(changes)),
    })
    this.#session = session
    const end = await session.run()
    this.#reconcile?.cancel()
    this.#session = undefined
    return end
  }

  /** Reads past the watch. A read that fails ends the session: etcd is not well, or not there. */
  async #reread(session: WatchSession): Promise<void> {
    const { connection } = this.#settings
    const known = this.#set.revision
    try {
      const listing = await session.read()
      // A session that ended meanwhile has a successor with a newer view.
      if (session !== this.#session) throw new Error('the connection was lost meanwhile')
      const changed = this.#set.list(listing, known)
      if (changed) session.expectBatch()
      this.#changed(changed)
      this.#publishing.flush()
      // Its watch waits for revisions that this store may never reach.
      if (listing.revision < known) session.end(new Error('its revisions went back: wiped or restored'))
    } catch (error) {
      session.end(error)
      throw new TopologySourceError(explain(error, connection, session.host), { cause: error })
    }
  }

  #scheduleReconcile(): void {
    this.#reconcile = this.#context.clock.setTimeout(() => {
      this.refresh()
        .then(() => this.#scheduleReconcile())
        .catch(() => {})
    }, this.#settings.reconcileIntervalMs)
  }

  #changed(changed: boolean): void {
    if (changed && this.status.state !== 'closed') this.#publishing.ask()
  }
}
