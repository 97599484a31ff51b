import type { Upstream } from '../topology/topology.ts'
import type { RegisteredUpstream } from './registered-upstream.ts'

/** What an update changed, by id. */
export interface RegistryChange {
  readonly added: string[]
  readonly removed: string[]
  readonly changed: string[]
}

/**
 * Keeps what we know of each upstream across topologies: one that stays never loses its counters, and one that left
 * with requests in flight finds them again when it returns.
 */
export class UpstreamRegistry {
  readonly #register: (spec: Upstream) => RegisteredUpstream
  readonly #present = new Map<string, RegisteredUpstream>()
  readonly #departed = new Map<string, RegisteredUpstream>()

  constructor(register: (spec: Upstream) => RegisteredUpstream) {
    this.#register = register
  }

  /** Every upstream of the topology, whatever its state. */
  get present(): Iterable<RegisteredUpstream> {
    return this.#present.values()
  }

  /** Requests in flight anywhere, on those that left too. */
  get inFlight(): number {
    let sum = 0
    for (const upstream of this.#present.values()) sum += upstream.inFlight
    for (const upstream of this.#departed.values()) sum += upstream.inFlight
    return sum
  }

  get(id: string): RegisteredUpstream | undefined {
    return this.#present.get(id)
  }

  update(specs: readonly Upstream[]): RegistryChange {
    const change: RegistryChange = { added: [], removed: [], changed: [] }
    const ids = new Set(specs.map((spec) => spec.id))
    for (const [id, upstream] of this.#departed) if (!upstream.busy) this.#departed.delete(id)
    for (const [id, upstream] of this.#present) {
      if (ids.has(id)) continue
      this.#present.delete(id)
      this.#departed.set(id, upstream)
      change.removed.push(id)
    }
    for (const spec of specs) {
      const known = this.#present.get(spec.id)
      if (known) {
        if (differs(known.spec, spec)) change.changed.push(spec.id)
        known.spec = spec
        continue
      }
      const upstream = this.#departed.get(spec.id) ?? this.#register(spec)
      this.#departed.delete(spec.id)
      upstream.spec = spec
      upstream.healthy = true // its health checks start anew
      this.#present.set(spec.id, upstream)
      change.added.push(spec.id)
    }
    return change
  }
}

function differs(before: Upstream, after: Upstream): boolean {
  return (
    before.url !== after.url ||
    before.weight !== after.weight ||
    before.state !== after.state ||
    before.zone !== after.zone ||
    JSON.stringify(before.metadata) !== JSON.stringify(after.metadata)
  )
}
