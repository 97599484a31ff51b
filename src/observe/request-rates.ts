import type { Clock } from '../clock.ts'
import type { ProxyEventEmitter } from './events.ts'

/** Whole seconds that a rate is the mean of: smooth enough to compare, and soon 0 when nothing comes any more. */
const SECONDS = 5

/** Requests per second by upstream, over the last five whole seconds. */
export class RequestRates {
  readonly #clock: Clock
  /** Counts of a second, at the place of that second modulo their number: the one that runs is not yet read. */
  readonly #seconds = Array.from({ length: SECONDS + 1 }, () => ({
    second: -1,
    counts: new Map<string, number>(),
  }))

  constructor(events: ProxyEventEmitter, clock: Clock) {
    this.#clock = clock
    events.on('request', ({ upstream }) => {
      if (upstream !== undefined) this.#count(upstream)
    })
  }

  /** Without those that had none. */
  read(): Record<string, number> {
    const now = this.#now
    const sums = new Map<string, number>()
    for (const { second, counts } of this.#seconds) {
      if (second >= now || second < now - SECONDS) continue
      for (const [upstream, count] of counts) sums.set(upstream, (sums.get(upstream) ?? 0) + count)
    }
    return Object.fromEntries([...sums].map(([upstream, sum]) => [upstream, sum / SECONDS]))
  }

  get #now(): number {
    return Math.floor(this.#clock.now() / 1000)
  }

  #count(upstream: string): void {
    const now = this.#now
    const slot = this.#seconds[now % this.#seconds.length]
    if (!slot) return
    if (slot.second !== now) {
      slot.second = now
      slot.counts.clear()
    }
    slot.counts.set(upstream, (slot.counts.get(upstream) ?? 0) + 1)
  }
}
