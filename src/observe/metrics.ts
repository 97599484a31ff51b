import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import { OptionsError } from '../errors.ts'
import { countEvents } from './counters.ts'
import type { ProxyEventEmitter } from './events.ts'
import { addGauges } from './gauges.ts'
import { TalliedHistogram } from './request-tally.ts'
import type { ProxyStatus } from './status.ts'

/**
 * Prometheus metrics of one proxy: counters follow its events, gauges are read from its status when scraped. Labels are
 * upstream ids and small enums only; the routing key never is one.
 */
export class Metrics {
  readonly #registry: Registry
  readonly #prefix: string
  readonly #names: string[] = []

  /** @throws OptionsError when the registry has metrics of these names, as when two proxies share one and a prefix */
  constructor(registry: Registry, prefix: string, events: ProxyEventEmitter, readStatus: () => ProxyStatus) {
    this.#registry = registry
    this.#prefix = prefix
    const registers = [registry]
    countEvents(events, {
      requests: (tally, buckets) => {
        new Counter({
          name: this.#claim('requests_total'),
          help: 'Requests by last upstream, class of the status and how they ended',
          labelNames: ['upstream', 'status_class', 'outcome'],
          registers,
          collect() {
            this.reset()
            for (const [labels, count] of tally.requests()) this.inc(labels, count)
          },
        })
        const name = this.#claim('request_duration_seconds')
        const help = 'From head to end of the answer'
        new TalliedHistogram({ name, help, buckets, labelNames: ['upstream'], registers }, tally)
      },
      counter: (name, help, labelNames = []) =>
        new Counter({ name: this.#claim(name), help, labelNames, registers }),
      histogram: (name, help, buckets, labelNames = []) =>
        new Histogram({ name: this.#claim(name), help, buckets, labelNames, registers }),
    })
    addGauges((name, help, labelNames, collect) => {
      new Gauge({
        ...{ name: this.#claim(name), help, labelNames, registers },
        collect() {
          // One without labels is reset to 0, which is not the same as unknown.
          if (labelNames.length === 0) this.remove()
          else this.reset()
          collect((labels, value) => this.set(labels, value))
        },
      })
    }, readStatus)
  }

  /** Takes the metrics out of the registry. */
  close(): void {
    for (const name of this.#names.splice(0)) this.#registry.removeSingleMetric(name)
  }

  /** The whole name of a metric of ours. */
  #claim(name: string): string {
    const full = this.#prefix + name
    if (this.#registry.getSingleMetric(full)) {
      this.close()
      throw new OptionsError(
        `Expected \`metrics.registry\` to have no metric \`${full}\` yet, got one: give each proxy a prefix of its own`,
      )
    }
    this.#names.push(full)
    return full
  }
}
