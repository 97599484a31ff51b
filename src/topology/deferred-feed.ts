import { TopologySourceError } from '../errors.ts'
import type {
  GatewayReport,
  SourceContext,
  SourceStatus,
  TopologyFeed,
  TopologyObserver,
  TopologySource,
} from './topology.ts'

/** A feed of `source` that is opened once `opening` resolves: before that nobody could use a topology. */
export class DeferredFeed implements TopologyFeed {
  readonly #opened: Promise<TopologyFeed | undefined>
  #status: SourceStatus = { state: 'connecting' }
  #feed: TopologyFeed | undefined

  constructor(
    opening: Promise<void>,
    source: TopologySource,
    observer: TopologyObserver,
    context: SourceContext,
  ) {
    this.#opened = opening.then(() => {
      if (this.#status.state === 'closed') return undefined
      try {
        this.#feed = source.open(observer, context)
      } catch (error) {
        // A source reports what goes wrong later through its status; this is no different to whoever reads that.
        this.#status = { state: 'connecting', error: error instanceof Error ? error.message : String(error) }
        context.logger.error({ err: error }, 'the topology source cannot be opened')
        observer.onStatus(this.#status)
      }
      return this.#feed
    })
  }

  get status(): SourceStatus {
    return this.#feed?.status ?? this.#status
  }

  async refresh(): Promise<void> {
    const feed = await this.#opened
    if (!feed) throw new TopologySourceError('Expected an open topology source, got one that is not')
    await feed.refresh()
  }

  report(read: () => GatewayReport | undefined): void {
    void this.#opened.then((feed) => feed?.report?.(read))
  }

  get disagreeing(): readonly string[] {
    return this.#feed?.disagreeing ?? []
  }

  async close(): Promise<void> {
    this.#status = { state: 'closed' }
    const feed = await this.#opened
    await feed?.close()
  }
}
