import type { Clock } from '../clock.ts'
import type { Config } from '../config.ts'
import type { ProxyEventEmitter } from '../observe/events.ts'
import { HashRing } from '../ring/hash-ring.ts'
import { type Steps, timed } from '../steps.ts'
import type { Topology } from '../topology/topology.ts'
import { type Choice, Chooser, type NoUpstream, none } from './chooser.ts'
import type { Lease } from './lease.ts'
import { Placement } from './placement.ts'
import { RegisteredUpstream } from './registered-upstream.ts'
import { RingLimit } from './ring-limit.ts'
import { Standings } from './standings.ts'
import { type RegistryChange, UpstreamRegistry } from './upstream-registry.ts'

export type { Choice, NoUpstream } from './chooser.ts'

/** The one mutable heart: the placement that requests choose on, and the load and health of each upstream. */
export class Balancer {
  readonly registry: UpstreamRegistry
  readonly #config: Config
  readonly #clock: Clock
  readonly #events: ProxyEventEmitter
  readonly #ringLimit: RingLimit
  readonly #standings: Standings
  readonly #chooser: Chooser
  #placement: Placement | undefined
  #placedAt = 0

  constructor(config: Config, events: ProxyEventEmitter) {
    this.#config = config
    this.#clock = config.clock
    this.#events = events
    this.#ringLimit = new RingLimit(config.ring.virtualNodes, config.limits.ringPoints, events)
    const rampMs = config.slowStart === false ? 0 : config.slowStart.durationMs
    const { maxEjectionPercent } = config.circuitBreaker
    this.#standings = new Standings({ maxEjectionPercent, rampMs }, config.clock, events)
    this.#chooser = new Chooser(config, this.#standings, events)
    this.registry = new UpstreamRegistry(
      (spec) =>
        new RegisteredUpstream(spec, config.circuitBreaker, config.clock, () => this.#standings.assess()),
    )
  }

  /** The placement in use, or undefined before the first topology. */
  get placement(): Placement | undefined {
    return this.#placement
  }

  /** Milliseconds since it is in use. */
  get placementAgeMs(): number | undefined {
    return this.#placement && this.#clock.now() - this.#placedAt
  }

  /** Whether more is ejected than the cap allows. */
  get panic(): boolean {
    return this.#standings.panic
  }

  /** Whether upstreams were left out because the ring is full. */
  get beyondRingLimit(): boolean {
    return this.#ringLimit.exceeded
  }

  /** Builds the new placement beside the one in use, and swaps it in with the last step. */
  *update(topology: Topology): Steps<void> {
    const took = { milliseconds: 0 }
    const { change, digest } = yield* timed(this.#place(topology), () => this.#clock.now(), took)
    const { revision, epoch } = topology
    const buildMilliseconds = took.milliseconds
    this.#events.emit('topology', { revision, epoch, digest, ...change, buildMilliseconds })
  }

  *#place(topology: Topology): Steps<{ change: RegistryChange; digest: string }> {
    const before = this.#placement
    const active = this.#ringLimit.fit(topology.upstreams.filter(({ state }) => state === 'active'))
    yield
    const ring = yield* (before?.ring ?? new HashRing([], this.#config.ring)).withInSteps(active)
    yield* ring.prepareInSteps()
    const update = yield* this.registry.prepare(topology.upstreams)
    const members = ring.members.flatMap(({ id }) => update.present.get(id) ?? [])
    yield
    // All of a first snapshot are as warm as they will be: whoever served them before is gone.
    const cold = before ? members.filter(({ id }) => !this.#isWarm(id)) : []
    const placement = new Placement(topology, ring, members)
    yield
    this.registry.commit(update)
    for (const upstream of cold) upstream.rampSince = this.#clock.now()
    this.#placement = placement
    this.#placedAt = this.#clock.now()
    this.#standings.replace(members)
    return { change: update.change, digest: ring.digest }
  }

  #isWarm(id: string): boolean {
    const upstream = this.registry.get(id)
    return upstream !== undefined && upstream.spec.state !== 'warming'
  }

  /** A health check has changed its mind about an upstream. */
  setHealthy(id: string, healthy: boolean): void {
    const upstream = this.registry.get(id)
    if (!upstream) return
    upstream.healthy = healthy
    this.#standings.assess()
  }

  /** Chooses an upstream for one attempt. */
  choose(choice: Choice): Lease | NoUpstream {
    return this.#placement ? this.#chooser.choose(this.#placement, choice) : none('no-topology')
  }

  /** Chooses the upstream of a released lease once more: where a retry goes that is bound to its owner. */
  chooseAgain(lease: Lease, choice: Choice): Lease | NoUpstream {
    return this.#chooser.chooseAgain(lease, choice)
  }

  /** How many requests `upstream` may have in flight now; undefined where nothing bounds it. */
  capacityOf(upstream: RegisteredUpstream): number | undefined {
    return this.#chooser.capacityOf(upstream)
  }
}
