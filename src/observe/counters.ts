import type { Counter, Histogram } from 'prom-client'
import type { ProxyEventEmitter } from './events.ts'
import { RequestTally } from './request-tally.ts'
import { UpstreamSeries } from './upstream-series.ts'

/** Seconds: from a cache's answer on loopback to the longest that a request may take by default. */
const requestBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]
/** Seconds: a change of one upstream among ten, to a full build of ten thousand. */
const buildBuckets = [0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5]

/** Makes the metrics of one proxy. */
export interface MakeMetrics {
  /** `requests_total` and `request_duration_seconds`, which are read from a tally. `bounds`: those of its buckets. */
  requests(tally: RequestTally, bounds: number[]): void
  counter<L extends string>(name: string, help: string, labelNames?: readonly L[]): Counter<L>
  histogram<L extends string>(
    name: string,
    help: string,
    buckets: number[],
    labelNames?: readonly L[],
  ): Histogram<L>
}

/** Counters and histograms of a proxy, moved by its events. */
export function countEvents(events: ProxyEventEmitter, make: MakeMetrics): void {
  const series = new UpstreamSeries(events)
  countRequests(events, make, series)
  countRetries(events, make)
  countUpstreams(events, make, series)
  countTopologies(events, make)
}

function countRequests(events: ProxyEventEmitter, make: MakeMetrics, series: UpstreamSeries): void {
  const tally = new RequestTally(requestBuckets)
  make.requests(tally, requestBuckets)
  series.onLeave((upstream) => tally.forget(upstream))
  const missingKeys = make.counter('missing_keys_total', 'Requests without a key')
  events.on('request', ({ upstream: id, status, outcome, milliseconds }) => {
    const upstream = series.label(id)
    tally.count(upstream, status, outcome)
    // A WebSocket lasts as long as it is wanted: that says nothing about how fast anything is.
    if (status !== 101) tally.time(upstream, milliseconds / 1_000)
  })
  events.on('missingKey', () => missingKeys.inc())
}

function countRetries(events: ProxyEventEmitter, make: MakeMetrics): void {
  const retries = make.counter('retries_total', 'Further attempts by reason', ['reason'])
  const unretried = make.counter('unretried_failures_total', 'Failed requests not tried again by reason', [
    'reason',
  ])
  const budget = make.counter('retry_budget_exhausted_total', 'Retries that the retry budget did not allow')
  const staleSigns = make.counter(
    'stale_topology_signs_total',
    'Signs of a stale topology that were read up on',
    ['sign', 'confirmed'],
  )
  events.on('retry', ({ reason }) => retries.inc({ reason }))
  events.on('giveUp', ({ reason }) => {
    unretried.inc({ reason })
    if (reason === 'budget') budget.inc()
  })
  events.on('staleTopology', ({ sign, confirmed }) => staleSigns.inc({ sign, confirmed: String(confirmed) }))
}

function countUpstreams(events: ProxyEventEmitter, make: MakeMetrics, series: UpstreamSeries): void {
  const ejections = series.follow(
    make.counter('ejections_total', 'Upstreams taken out of choice', ['upstream', 'cause']),
  )
  const recoveries = series.follow(
    make.counter('recoveries_total', 'Ejected upstreams that came back', ['upstream']),
  )
  const overCapacity = series.follow(
    make.counter('over_capacity_total', 'Retries that found every upstream full', ['upstream']),
  )
  const overflow = make.counter('overflow_total', 'Requests that their owner was too loaded for, by rank', [
    'rank',
  ])
  events.on('ejection', ({ upstream, cause }) => ejections.inc({ upstream: series.label(upstream), cause }))
  events.on('recovery', ({ upstream }) => recoveries.inc({ upstream: series.label(upstream) }))
  events.on('overCapacity', ({ upstream }) => overCapacity.inc({ upstream: series.label(upstream) }))
  events.on('overflow', ({ rank }) => overflow.inc({ rank: rank > 3 ? '4+' : String(rank) }))
}

function countTopologies(events: ProxyEventEmitter, make: MakeMetrics): void {
  const changes = make.counter('topology_changes_total', 'Topologies that went live')
  const builds = make.histogram(
    'ring_build_seconds',
    'Time to build the ring of a new topology',
    buildBuckets,
  )
  const refused = make.counter('refused_entries_total', 'Topology entries refused by reason', ['reason'])
  events.on('topology', ({ buildMilliseconds }) => {
    changes.inc()
    builds.observe(buildMilliseconds / 1_000)
  })
  events.on('refused', ({ reason }) => refused.inc({ reason }))
}
