import { systemClock } from '../../src/clock.ts'
import type { RefusedEntryError } from '../../src/errors.ts'
import { silentLogger } from '../../src/logger.ts'
import type {
  SourceContext,
  SourceStatus,
  Topology,
  TopologyFeed,
  TopologySource,
  Upstream,
} from '../../src/topology/topology.ts'

/** An opened source with all it told. */
export class Followed {
  readonly feed: TopologyFeed
  readonly topologies: Topology[] = []
  readonly statuses: SourceStatus[] = []
  readonly refused: [string, RefusedEntryError][] = []
  #check: () => void = () => {}

  constructor(source: TopologySource, context: Partial<SourceContext> = {}) {
    this.feed = source.open(
      {
        onTopology: (topology) => this.#note(this.topologies, topology),
        onStatus: (status) => this.#note(this.statuses, status),
        onRefused: (entry, error) => this.#note(this.refused, [entry, error]),
      },
      { clock: systemClock, logger: silentLogger, ...context },
    )
  }

  get latest(): Topology {
    const latest = this.topologies.at(-1)
    if (latest === undefined) throw new Error(`no topology yet; ${JSON.stringify(this.feed.status)}`)
    return latest
  }

  get ids(): string[] {
    return (this.topologies.at(-1)?.upstreams ?? []).map(({ id }) => id)
  }

  upstream(id: string): Upstream | undefined {
    return this.latest.upstreams.find((upstream) => upstream.id === id)
  }

  /** Resolves as soon as `condition` holds, looking after each thing told. */
  async until(condition: () => boolean, timeoutMs = 8000): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    await new Promise<void>((resolve, reject) => {
      const told = () =>
        JSON.stringify([this.feed.status, this.topologies.at(-1), this.refused], (_key, value) =>
          typeof value === 'bigint' ? String(value) : value,
        )
      timer = setTimeout(
        () => reject(new Error(`not within ${timeoutMs} ms: ${condition}; ${told()}`)),
        timeoutMs,
      )
      this.#check = () => {
        if (condition()) resolve()
      }
      this.#check()
    })
    clearTimeout(timer)
    this.#check = () => {}
  }

  /** Resolves when upstreams are exactly these. */
  untilIds(...ids: string[]): Promise<void> {
    return this.until(() => this.topologies.length > 0 && this.ids.join() === ids.join())
  }

  untilLive(): Promise<void> {
    return this.until(() => this.feed.status.state === 'live')
  }

  #note<T>(list: T[], item: T): void {
    list.push(item)
    // The feed's own state may follow the call.
    queueMicrotask(() => this.#check())
  }
}
