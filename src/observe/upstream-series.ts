import type { Counter, Histogram } from 'prom-client'
import type { ProxyEventEmitter } from './events.ts'

type Metric = Counter<string> | Histogram<string>

/** The series that carry an upstream's id: forgotten when it leaves the topology, so that their number stays bounded. */
export class UpstreamSeries {
  readonly #present = new Set<string>()
  readonly #metrics: Metric[] = []
  readonly #onLeave: ((upstream: string) => void)[] = []

  constructor(events: ProxyEventEmitter) {
    events.on('topology', ({ added, removed }) => {
      for (const id of added) this.#present.add(id)
      for (const id of removed) {
        this.#present.delete(id)
        for (const leave of this.#onLeave) leave(id)
      }
      if (removed.length === 0) return
      const gone = new Set(removed)
      for (const metric of this.#metrics) void removeSeries(metric, gone)
    })
  }

  /** From now on forgets this metric's series of upstreams that leave. */
  follow<M extends Metric>(metric: M): M {
    this.#metrics.push(metric)
    return metric
  }

  /** From now on calls `forget` for each upstream that leaves. */
  onLeave(forget: (upstream: string) => void): void {
    this.#onLeave.push(forget)
  }

  /**
   * The value of the label `upstream`. Empty where there is none, and for one that has left: a request that ends behind
   * its upstream's departure must not bring the series back.
   */
  label(upstream: string | undefined): string {
    return upstream !== undefined && this.#present.has(upstream) ? upstream : ''
  }
}

/** Forgets every series of these upstreams, whatever their other labels: all at once, since each look reads them all. */
async function removeSeries(metric: Metric, upstreams: ReadonlySet<unknown>): Promise<void> {
  const { values } = await metric.get()
  for (const { labels } of values) {
    if (!upstreams.has(labels.upstream)) continue
    const { le: _, ...own } = labels as Record<string, string | number>
    metric.remove(own)
  }
}
