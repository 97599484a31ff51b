import type { Steps } from '../steps.ts'
import type { Upstream } from '../topology/topology.ts'
import { type Target, targetOf } from '../transport/transport.ts'
import type { RegisteredUpstream } from './registered-upstream.ts'

/** Upstreams looked at in one step. */
const STEP = 128

/** What an update changed, by id. */
export interface RegistryChange {
  readonly added: string[]
  readonly removed: string[]
  readonly changed: string[]
}

/** An update that is ready, and changes nothing before `commit`. */
export interface RegistryUpdate {
  readonly change: RegistryChange
  /** Every upstream as it will be, by id. */
  readonly present: ReadonlyMap<string, RegisteredUpstream>
  readonly departed: ReadonlyMap<string, RegisteredUpstream>
  /** Those that will be described otherwise. */
  readonly described: readonly (readonly [RegisteredUpstream, Upstream, Target])[]
}

/**
 * Keeps what we know of each upstream across topologies: one that stays never loses its counters, and one that left
 * with requests in flight finds them again when it returns.
 */
export class UpstreamRegistry {
  readonly #register: (spec: Upstream) => RegisteredUpstream
  #present: ReadonlyMap<string, RegisteredUpstream> = new Map()
  #departed: ReadonlyMap<string, RegisteredUpstream> = new Map()

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

  /** Gets the update to these upstreams ready, step by step; no other one may be committed before it. */
  *prepare(specs: readonly Upstream[]): Steps<RegistryUpdate> {
    const change: RegistryChange = { added: [], removed: [], changed: [] }
    const present = new Map<string, RegisteredUpstream>()
    const described: [RegisteredUpstream, Upstream, Target][] = []
    for (const spec of specs) {
      const { id } = spec
      const known = this.#present.get(id)
      const upstream = known ?? this.#busyDeparted(id) ?? this.#register(spec)
      const isDifferent = differs(upstream.spec, spec)
      if (!known) change.added.push(id)
      else if (isDifferent) change.changed.push(id)
      if (isDifferent) described.push([upstream, spec, targetOf(spec.url)])
      present.set(id, upstream)
      if (present.size % STEP === 0) yield
    }
    const departed = new Map<string, RegisteredUpstream>()
    for (const [id, upstream] of this.#departed)
      if (upstream.busy && !present.has(id)) departed.set(id, upstream)
    let looked = 0
    for (const [id, upstream] of this.#present) {
      if (!present.has(id)) {
        departed.set(id, upstream)
        change.removed.push(id)
      }
      looked += 1
      if (looked % STEP === 0) yield
    }
    return { change, present, departed, described }
  }

  #busyDeparted(id: string): RegisteredUpstream | undefined {
    const upstream = this.#departed.get(id)
    return upstream?.busy ? upstream : undefined
  }

  commit({ change, present, departed, described }: RegistryUpdate): void {
    this.#present = present
    this.#departed = departed
    for (const [upstream, spec, target] of described) upstream.describe(spec, target)
    for (const id of change.added) {
      const upstream = present.get(id)
      if (upstream) upstream.healthy = true // its health checks start anew
    }
  }
}

function differs(before: Upstream, after: Upstream): boolean {
  if (before === after) return false
  return (
    before.url !== after.url ||
    before.weight !== after.weight ||
    before.state !== after.state ||
    before.zone !== after.zone ||
    JSON.stringify(before.metadata) !== JSON.stringify(after.metadata)
  )
}
