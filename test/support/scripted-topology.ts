import type {
  RefusedEntryError,
  SourceStatus,
  Topology,
  TopologyFeed,
  TopologyObserver,
  TopologySource,
  Upstream,
} from '../../src/index.ts'

/** A source that says what the test tells it to say; for one proxy, whose `ready()` it waits for. */
export class ScriptedTopology implements TopologySource {
  readonly kind = 'etcd'
  opens = 0
  #status: SourceStatus = { state: 'connecting' }
  #observer: TopologyObserver | undefined
  #latest: Topology | undefined

  /** @param upstreams the first topology, at revision 1; without it there is none at first */
  constructor(upstreams?: readonly Partial<Upstream>[]) {
    if (upstreams) this.set(1n, upstreams)
  }

  open(observer: TopologyObserver): TopologyFeed {
    this.opens += 1
    this.#observer = observer
    if (this.#latest) {
      this.say({ state: 'live' })
      observer.onTopology(this.#latest)
    }
    const status = () => this.#status
    return {
      get status() {
        return status()
      },
      refresh: async () => {},
      close: async () => this.say({ state: 'closed' }),
    }
  }

  set(revision: bigint, upstreams: readonly Partial<Upstream>[], more: Partial<Topology> = {}): void {
    const whole = upstreams.map(
      (upstream): Upstream => ({
        id: '?',
        url: 'http://127.0.0.1:1',
        weight: 1,
        state: 'active',
        ...upstream,
      }),
    )
    whole.sort((a, b) => (a.id < b.id ? -1 : 1))
    this.give({ id: 'scripted', epoch: 0, revision, degraded: false, ...more, upstreams: whole })
  }

  /** A topology as it is. */
  give(topology: Topology): void {
    this.#latest = topology
    this.#observer?.onTopology(topology)
  }

  say(status: SourceStatus): void {
    this.#status = status
    this.#observer?.onStatus(status)
  }

  refuse(entry: string, error: RefusedEntryError): void {
    this.#observer?.onRefused(entry, error)
  }
}
