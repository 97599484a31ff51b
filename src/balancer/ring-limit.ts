import type { ProxyEventEmitter } from '../observe/events.ts'
import type { Upstream } from '../topology/topology.ts'

/**
 * Keeps the ring within so many points. Upstreams are taken in the order of their ids while their points fit: so
 * every gateway refuses the same ones, whatever came first.
 */
export class RingLimit {
  readonly #virtualNodes: number
  readonly #limit: number
  readonly #events: ProxyEventEmitter
  #beyond: ReadonlySet<string> = new Set()

  /** `virtualNodes`: points of an upstream of weight 1; `limit`: points of all upstreams together. */
  constructor(virtualNodes: number, limit: number, events: ProxyEventEmitter) {
    this.#virtualNodes = virtualNodes
    this.#limit = limit
    this.#events = events
  }

  /** Whether upstreams were left out the last time. */
  get exceeded(): boolean {
    return this.#beyond.size > 0
  }

  /** Those of the upstreams, sorted by id, that are on the ring. The others are reported, once while they stay out. */
  fit(upstreams: readonly Upstream[]): readonly Upstream[] {
    const fitting: Upstream[] = []
    const beyond = new Set<string>()
    let points = 0
    for (const upstream of upstreams) {
      const wanted = Math.max(1, Math.round(this.#virtualNodes * upstream.weight))
      if (points + wanted > this.#limit) {
        beyond.add(upstream.id)
        continue
      }
      points += wanted
      fitting.push(upstream)
    }
    for (const entry of beyond) if (!this.#beyond.has(entry)) this.#refuse(entry)
    this.#beyond = beyond
    return fitting
  }

  #refuse(entry: string): void {
    const message = `no room for its points on the ring, which is limited to ${this.#limit}`
    this.#events.emit('refused', { entry, reason: 'limit', message })
  }
}
