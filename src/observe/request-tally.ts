import {
  Histogram,
  type HistogramConfiguration,
  type MetricObjectWithValues,
  type MetricType,
  type MetricValueWithName,
} from 'prom-client'
import type { RequestOutcome } from './events.ts'

const outcomes: readonly RequestOutcome[] = ['answered', 'failed', 'broken', 'client-gone']
/** 1xx to 5xx; the place before them stays empty. */
const statusClasses = 6

/** The requests of one upstream. */
class UpstreamTally {
  readonly counts = new Float64Array(statusClasses * outcomes.length)
  /** By bucket; the last place is for what is above all bounds. */
  readonly durations: Float64Array
  seconds = 0

  constructor(buckets: number) {
    this.durations = new Float64Array(buckets + 1)
  }
}

/**
 * Counts requests and how long they took, by upstream. Read when the metrics are scraped: a counter with labels costs a
 * request as much as the choice of its upstream does, and a number in an array next to nothing.
 */
export class RequestTally {
  readonly #bounds: readonly number[]
  readonly #upstreams = new Map<string, UpstreamTally>()

  /** `bounds`: upper bounds of the buckets of durations, in seconds, ascending. */
  constructor(bounds: readonly number[]) {
    this.#bounds = bounds
  }

  count(upstream: string, status: number, outcome: RequestOutcome): void {
    const { counts } = this.#of(upstream)
    const place = Math.floor(status / 100) * outcomes.length + outcomes.indexOf(outcome)
    counts[place] = (counts[place] ?? 0) + 1
  }

  time(upstream: string, seconds: number): void {
    const tally = this.#of(upstream)
    let bucket = 0
    while (bucket < this.#bounds.length && seconds > (this.#bounds[bucket] as number)) bucket += 1
    tally.durations[bucket] = (tally.durations[bucket] ?? 0) + 1
    tally.seconds += seconds
  }

  forget(upstream: string): void {
    this.#upstreams.delete(upstream)
  }

  /** Each combination that was counted. */
  *requests(): Iterable<
    [labels: { upstream: string; status_class: string; outcome: string }, count: number]
  > {
    for (const [upstream, { counts }] of this.#upstreams)
      for (const [place, count] of counts.entries()) {
        if (count === 0) continue
        const status_class = `${Math.floor(place / outcomes.length)}xx`
        yield [{ upstream, status_class, outcome: outcomes[place % outcomes.length] ?? '' }, count]
      }
  }

  /** The durations as a histogram named `name` says them: buckets that add up, sum and count. */
  *durations(name: string): Iterable<MetricValueWithName<'upstream' | 'le'>> {
    for (const [upstream, { durations, seconds }] of this.#upstreams) {
      let total = 0
      for (const [bucket, count] of durations.entries()) {
        total += count
        yield {
          labels: { le: this.#bounds[bucket] ?? '+Inf', upstream },
          value: total,
          metricName: `${name}_bucket`,
        }
      }
      yield { labels: { upstream }, value: seconds, metricName: `${name}_sum` }
      yield { labels: { upstream }, value: total, metricName: `${name}_count` }
    }
  }

  #of(upstream: string): UpstreamTally {
    let tally = this.#upstreams.get(upstream)
    if (!tally) {
      tally = new UpstreamTally(this.#bounds.length)
      this.#upstreams.set(upstream, tally)
    }
    return tally
  }
}

/** The durations of a tally as a metric of `prom-client`. */
export class TalliedHistogram extends Histogram<'upstream'> {
  readonly #name: string
  readonly #help: string
  readonly #tally: RequestTally

  constructor(configuration: HistogramConfiguration<'upstream'>, tally: RequestTally) {
    super(configuration)
    this.#name = configuration.name
    this.#help = configuration.help
    this.#tally = tally
  }

  override async get(): Promise<MetricObjectWithValues<MetricValueWithName<'upstream' | 'le'>>> {
    return {
      ...{ name: this.#name, help: this.#help, aggregator: 'sum' },
      type: 'histogram' as unknown as MetricType, // a number in the types, a word in the code
      values: [...this.#tally.durations(this.#name)],
      collect() {},
    }
  }

  /** Asked in place of `get` by the registry of `prom-client` 15 when it writes text. */
  getForPromString() {
    return this.get()
  }
}
