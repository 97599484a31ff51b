import type { Timer } from '../../clock.ts'
import { TopologySourceError } from '../../errors.ts'
import { FeedStatus } from '../feed-status.ts'
import type {
  GatewayReport,
  SourceContext,
  SourceStatus,
  Topology,
  TopologyFeed,
  TopologyObserver,
  Upstream,
} from '../topology.ts'
import { UpstreamSet } from '../upstream-set.ts'
import type { EtcdConnection } from './connection.ts'
import { explain } from './explain.ts'
import { GatewayReports, type ReportSettings } from './gateway-reports.ts'
import { Publisher, type PublisherSettings } from './publisher.ts'
import { type SessionEnd, SessionLoop } from './session-loop.ts'
import { WatchSession } from './watch-session.ts'

export interface EtcdFeedSettings extends Omit<PublisherSettings, 'prefix'> {
  readonly connection: EtcdConnection
  readonly reconcileIntervalMs: number
  readonly report: ReportSettings | false
  readonly decode: (value: Buffer, name: string) => Upstream
}

/** Keeps one set of upstreams over many sessions with etcd, and says how it stands with etcd. */
export class EtcdFeed implements TopologyFeed {
  readonly #settings: EtcdFeedSettings
  readonly #context: SourceContext
  readonly #observer: TopologyObserver
  readonly #status: FeedStatus
  readonly #set: UpstreamSet
  readonly #publisher: Publisher
  readonly #restored: Promise<void>
  readonly #loop: SessionLoop
  #reports: GatewayReports | undefined
  #session: WatchSession | undefined
  #rereading: Promise<void> | undefined
  #reconcile: Timer | undefined

  constructor(settings: EtcdFeedSettings, observer: TopologyObserver, context: SourceContext) {
    const { connection, decode } = settings
    const { prefix } = connection
    this.#settings = settings
    this.#context = context
    this.#observer = observer
    this.#status = new FeedStatus((status) => observer.onStatus(status))
    this.#set = new UpstreamSet({
      prefix,
      decode,
      onRefused: (key, error) => observer.onRefused(`${prefix}${key}`, error),
    })
    this.#publisher = new Publisher(
      this.#set,
      { ...settings, prefix },
      (topology) => this.#serve(topology),
      context,
    )
    this.#restored = this.#publisher.restore()
    this.#loop = new SessionLoop({
      connection,
      clock: context.clock,
      session: (host) => this.#live(host),
      onFailure: (message, everywhere) => {
        if (everywhere) this.#publisher.serveFromDisk()
        const { diskProblem } = this.#publisher
        this.#status.failed(diskProblem ? `${message}; ${diskProblem}` : message)
      },
    })
  }

  get status(): SourceStatus {
    const { current } = this.#status
    const { diskCopy } = this.#publisher
    return current.state === 'connecting' && diskCopy ? { ...current, diskCopy } : current
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

  report(read: () => GatewayReport | undefined): void {
    const { connection, report } = this.#settings
    if (report === false || this.status.state === 'closed') return
    const tell = (gateways: readonly string[]) => this.#observer.onDisagreement?.(gateways)
    this.#reports ??= new GatewayReports({ connection, report }, read, tell, this.#context)
  }

  get disagreeing(): readonly string[] {
    return this.#reports?.disagreeing ?? []
  }

  async close(): Promise<void> {
    this.#status.closed()
    this.#session?.end(undefined)
    await Promise.all([this.#loop.close(), this.#publisher.close(), this.#reports?.close()])
  }

  #serve(topology: Topology): void {
    this.#observer.onTopology(topology)
    this.#reports?.changed()
  }

  async #live(host: string): Promise<SessionEnd> {
    await this.#restored
    if (this.status.state === 'closed') return { reason: undefined, upMs: 0 }
    const session = new WatchSession({
      connection: this.#settings.connection,
      host,
      clock: this.#context.clock,
      // Nothing but this session's own snapshot moves the set before its watch stands.
      onListing: (listing) => this.#publisher.read(this.#set.list(listing, this.#set.revision)),
      onWatching: () => {
        this.#status.live()
        this.#scheduleReconcile()
      },
      onChanges: (changes) => {
        if (this.#set.apply(changes)) this.#publisher.changed()
      },
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
      this.#publisher.read(changed)
      this.#publisher.flush()
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
}
