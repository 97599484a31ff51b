import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import { OptionsError } from '../errors.ts'
import type { ProxyEventEmitter } from './events.ts'
import { addGauges } from './gauges.ts'
import type { ProxyStatus } from './status.ts'

/** Seconds: from a cache's answer on loopback to the longest that a request may take by default. */
const requestBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]
/** Seconds: a change of one upstream among ten, to a full build of ten thousand. */
const buildBuckets = [0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5]

/**
 * Prometheus metrics of one proxy: counters follow its events, gauges are read from its status when scraped. Labels are
 * upstream ids and small enums only; the routing key never is one.
 */
export class Metrics {
  readonly #registry: Registry
  readonly #names: string[] = []

  /** @throws OptionsError when the registry has metrics of these names, as when two proxies share one and a prefix */
  constructor(registry: Registry, prefix: string, events: ProxyEventEmitter, readStatus: () => ProxyStatus) {
    this.#registry = registry
    const add = <M>(name: string, make: (name: string) => M): M => {
      const full = prefix + name
      if (registry.getSingleMetric(full)) {
        this.close()
        throw new OptionsError(
          `Expected \`metrics.registry\` to have no metric \`${full}\` yet, got one: give each proxy a prefix of its own`,
        )
      }
      this.#names.push(full)
      return make(full)
    }
    const counter = <L extends string>(name: string, help: string, labelNames: readonly L[] = []) =>
      add(name, (full) => new Counter({ name: full, help, labelNames, registers: [registry] }))
    const histogram = <L extends string>(
      name: string,
      help: string,
      buckets: number[],
      labelNames: readonly L[] = [],
    ) => add(name, (full) => new Histogram({ name: full, help, buckets, labelNames, registers: [registry] }))

    countEvents(events, counter, histogram)
    addGauges(
      (name, help, labelNames, collect) =>
        add(
          name,
          (full) =>
            new Gauge({
              ...{ name: full, help, labelNames, registers: [registry] },
              collect() {
                // One without labels is reset to 0, which is not the same as unknown.
                if (labelNames.length === 0) this.remove()
                else this.reset()
                collect((labels, value) => this.set(labels, value))
              },
            }),
        ),
      readStatus,
    )
  }

  /** Takes the metrics out of the registry. */
  close(): void {
    for (const name of this.#names.splice(0)) this.#registry.removeSingleMetric(name)
  }
}

type MakeCounter = <L extends string>(name: string, help: string, labelNames?: readonly L[]) => Counter<L>
type MakeHistogram = <L extends string>(
  name: string,
  help: string,
  buckets: number[],
  labelNames?: readonly L[],
) => Histogram<L>

function countEvents(events: ProxyEventEmitter, counter: MakeCounter, histogram: MakeHistogram): void {
  const requests = counter(
    'requests_total',
    'Requests by last upstream, class of the status and how they ended',
    ['upstream', 'status_class', 'outcome'],
  )
  const durations = histogram('request_duration_seconds', 'From head to end of the answer', requestBuckets, [
    'upstream',
  ])
  const ejections = counter('ejections_total', 'Upstreams taken out of choice', ['upstream', 'cause'])
  const recoveries = counter('recoveries_total', 'Ejected upstreams that came back', ['upstream'])
  const overCapacity = counter('over_capacity_total', 'Retries that found every upstream full', ['upstream'])
  const overflow = counter('overflow_total', 'Requests that their owner was too loaded for, by owner rank', [
    'rank',
  ])
  const retries = counter('retries_total', 'Further attempts by reason', ['reason'])
  const unretried = counter('unretried_failures_total', 'Failed requests not tried again by reason', [
    'reason',
  ])
  const budget = counter('retry_budget_exhausted_total', 'Retries that the retry budget did not allow')
  const staleSigns = counter('stale_topology_signs_total', 'Signs of a stale topology that were read up on', [
    'sign',
    'confirmed',
  ])
  const changes = counter('topology_changes_total', 'Topologies that went live')
  const builds = histogram('ring_build_seconds', 'Time to build the ring of a new topology', buildBuckets)
  const refused = counter('refused_entries_total', 'Topology entries refused by reason', ['reason'])
  const missingKeys = counter('missing_keys_total', 'Requests without a key')

  // A request that ends behind its upstream's departure must not bring the series back.
  const present = new Set<string>()
  const known = (upstream: string | undefined) =>
    upstream !== undefined && present.has(upstream) ? upstream : ''

  events.on('request', ({ upstream, status, outcome, milliseconds }) => {
    requests.inc({ upstream: known(upstream), status_class: `${Math.floor(status / 100)}xx`, outcome })
    durations.observe({ upstream: known(upstream) }, milliseconds / 1_000)
  })
  events.on('ejection', ({ upstream, cause }) => ejections.inc({ upstream: known(upstream), cause }))
  events.on('recovery', ({ upstream }) => recoveries.inc({ upstream: known(upstream) }))
  events.on('overCapacity', ({ upstream }) => overCapacity.inc({ upstream: known(upstream) }))
  events.on('overflow', ({ rank }) => overflow.inc({ rank: rank > 3 ? '4+' : String(rank) }))
  events.on('retry', ({ reason }) => retries.inc({ reason }))
  events.on('giveUp', ({ reason }) => {
    unretried.inc({ reason })
    if (reason === 'budget') budget.inc()
  })
  events.on('staleTopology', ({ sign, confirmed }) => staleSigns.inc({ sign, confirmed: String(confirmed) }))
  events.on('refused', ({ reason }) => refused.inc({ reason }))
  events.on('missingKey', () => missingKeys.inc())
  events.on('topology', ({ added, removed, buildMilliseconds }) => {
    changes.inc()
    builds.observe(buildMilliseconds / 1_000)
    for (const id of added) present.add(id)
    for (const upstream of removed) {
      present.delete(upstream)
      for (const metric of [requests, durations, ejections, recoveries, overCapacity])
        void removeSeries(metric, upstream)
    }
  })
}

/** Forgets every series of one upstream, whatever its other labels. */
async function removeSeries(metric: Counter<string> | Histogram<string>, upstream: string): Promise<void> {
  const { values } = await metric.get()
  for (const { labels } of values) {
    if (labels.upstream !== upstream) continue
    const { le: _, ...own } = labels as Record<string, string | number>
    metric.remove(own)
  }
}
