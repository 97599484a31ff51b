import type { Topology, TopologyFeed, TopologySource } from '../../src/index.ts'

/**
 * A source as a slow network makes of it: what the watch tells does not arrive before `deliver` or a re-read, so a
 * gateway behind it is stale as long as a test wants. Counts the re-reads.
 */
export class LateTopology implements TopologySource {
  readonly kind: TopologySource['kind']
  reads = 0
  readonly #source: TopologySource
  #late = false
  #deliver: () => void = () => {}

  constructor(source: TopologySource) {
    this.#source = source
    this.kind = source.kind
  }

  /** From now on what comes in is held back. */
  hold(): void {
    this.#late = true
  }

  /** Hands over what was held back. */
  deliver(): void {
    this.#deliver()
  }

  open: TopologySource['open'] = (observer, context) => {
    let latest: Topology | undefined
    let delivered: Topology | undefined
    const deliver = () => {
      if (!latest || latest === delivered) return
      delivered = latest
      observer.onTopology(latest)
    }
    this.#deliver = deliver
    const feed = this.#source.open(
      {
        ...observer,
        onStatus: (status) => observer.onStatus(status),
        onRefused: (entry, error) => observer.onRefused(entry, error),
        onTopology: (topology) => {
          latest = topology
          if (!this.#late) deliver()
        },
      },
      context,
    )
    const self = this
    return {
      get status() {
        return feed.status
      },
      async refresh() {
        self.reads += 1
        await feed.refresh()
        deliver()
      },
      close: () => feed.close(),
    } satisfies TopologyFeed
  }
}
