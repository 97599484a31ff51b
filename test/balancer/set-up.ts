import { Balancer, type Choice, type NoUpstream } from '../../src/balancer/balancer.ts'
import { Lease } from '../../src/balancer/lease.ts'
import { parseOptions } from '../../src/config.ts'
import { silentLogger } from '../../src/logger.ts'
import { ProxyEventEmitter, type ProxyEvents } from '../../src/observe/events.ts'
import type { ConsistentHashProxyOptions } from '../../src/options.ts'
import { finish } from '../../src/steps.ts'
import { staticTopology } from '../../src/topology/static.ts'
import type { Upstream } from '../../src/topology/topology.ts'
import { ManualClock } from '../support/manual-clock.ts'

/** An upstream as a topology has it. */
export const spec = (id: string, fields: Partial<Upstream> = {}): Upstream => ({
  ...{ id, url: `http://${id}.test:80`, weight: 1, state: 'active' as const },
  ...fields,
})

/** A balancer alone, on a clock that is moved by hand. */
export class BalancerUnderTest {
  readonly clock = new ManualClock()
  readonly events = new ProxyEventEmitter(silentLogger)
  readonly balancer: Balancer
  #revision = 0n

  constructor(options: Partial<ConsistentHashProxyOptions> = {}) {
    const config = parseOptions({
      ...{ key: 'ip', topology: staticTopology(['http://127.0.0.1:1']), clock: this.clock },
      ...options,
      circuitBreaker: { jitter: 0, ...options.circuitBreaker },
    })
    this.balancer = new Balancer(config, this.events)
  }

  /** What is emitted under `name` from now on. */
  heard(name: 'overflow' | 'overCapacity' | 'ejection' | 'recovery' | 'refused'): unknown[] {
    const list: unknown[] = []
    this.events.on<keyof ProxyEvents>(name, (event?: unknown) => list.push(event))
    return list
  }

  update(...upstreams: readonly (Upstream | string)[]): this {
    const whole = upstreams.map((upstream) => (typeof upstream === 'string' ? spec(upstream) : upstream))
    whole.sort((a, b) => (a.id < b.id ? -1 : 1))
    this.#revision += 1n
    const topology = { id: 't', epoch: 0, revision: this.#revision, upstreams: whole, degraded: false }
    finish(this.balancer.update(topology))
    return this
  }

  /** A position that `id` owns first. */
  positionOf(id: string): bigint {
    const ring = this.balancer.placement?.ring
    for (let index = 0; ring && index < 100_000; index += 1) {
      if (ring.owner(`key-${index}`) === id) return ring.position(`key-${index}`)
    }
    throw new Error(`no key found that ${id} owns`)
  }

  choose(position: bigint, choice: Partial<Choice> = {}): Lease | NoUpstream {
    return this.balancer.choose({ position, tried: [], longLived: false, ...choice })
  }

  /** A lease, or the test fails with why there is none. */
  lease(position: bigint, choice: Partial<Choice> = {}): Lease {
    const chosen = this.choose(position, choice)
    if (chosen instanceof Lease) return chosen
    throw new Error(`expected a lease, got ${chosen.reason}`)
  }

  /** Ids of upstreams in the order in which retries of one request would try them. */
  order(position: bigint): string[] {
    const tried: Upstream[] = []
    for (;;) {
      const chosen = this.choose(position, { tried })
      if (!(chosen instanceof Lease)) return tried.map(({ id }) => id)
      tried.push(chosen.spec)
      chosen.release()
    }
  }

  /** Five failures in a row, which open its breaker. */
  fell(id: string, kind: 'connect' | 'timeout' = 'timeout'): void {
    const upstream = this.upstream(id)
    for (let failure = 0; failure < 5; failure += 1)
      upstream.breaker.tryAcquire()?.failure(kind, BigInt(failure))
  }

  upstream(id: string) {
    const upstream = this.balancer.registry.get(id)
    if (!upstream) throw new Error(`expected upstream ${id}`)
    return upstream
  }

  inFlight(): Record<string, number> {
    return Object.fromEntries([...this.balancer.registry.present].map(({ id, inFlight }) => [id, inFlight]))
  }
}
