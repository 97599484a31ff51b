import type {
  SourceContext,
  Topology,
  TopologyFeed,
  TopologyObserver,
  TopologySource,
  Upstream,
} from '../../src/topology/topology.ts'

/** A topology source whose topology the test sets; it counts what its feed is asked for. */
export class SettableSource implements TopologySource {
  readonly kind = 'static'
  refreshes = 0
  closes = 0
  /** What a refresh does, to be replaced. */
  onRefresh: () => Promise<void> = async () => {}
  #observer: TopologyObserver | undefined

  open(observer: TopologyObserver, _context: SourceContext): TopologyFeed {
    this.#observer = observer
    return {
      status: { state: 'live' },
      refresh: () => {
        this.refreshes++
        return this.onRefresh()
      },
      close: async () => {
        this.closes++
      },
    }
  }

  set(revision: bigint, upstreams: readonly Partial<Upstream>[], more: Partial<Topology> = {}): void {
    this.#observer?.onTopology({
      id: 'shop',
      epoch: 0,
      revision,
      degraded: false,
      upstreams: upstreams.map((upstream) => ({
        id: '?',
        url: 'http://127.0.0.1:1',
        weight: 1,
        state: 'active',
        ...upstream,
      })),
      ...more,
    })
  }

  refuse(entry: string, error: Parameters<TopologyObserver['onRefused']>[1]): void {
    this.#observer?.onRefused(entry, error)
    this.#observer?.onStatus({ state: 'lost', error: error.message })
  }
}
