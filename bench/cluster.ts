import { Balancer } from '../src/balancer/balancer.ts'
import { Lease } from '../src/balancer/lease.ts'
import { parseOptions } from '../src/config.ts'
import { silentLogger } from '../src/logger.ts'
import { ProxyEventEmitter } from '../src/observe/events.ts'
import { finish } from '../src/steps.ts'
import { staticTopology } from '../src/topology/static.ts'
import type { Topology, Upstream } from '../src/topology/topology.ts'

/** Ids of `count` upstreams. */
export const idsOf = (count: number): string[] =>
  Array.from({ length: count }, (_, index) => `upstream-${index}`)

/** A topology of `count` upstreams at a revision. */
export function topologyOf(count: number, revision = 1n): Topology {
  const upstreams = idsOf(count).map(
    (id, index): Upstream => ({
      id,
      url: `http://127.0.0.1:${1 + (index % 65_000)}`,
      weight: 1,
      state: 'active',
    }),
  )
  upstreams.sort((left, right) => (left.id < right.id ? -1 : 1))
  return { id: 'bench', epoch: 0, revision, upstreams, degraded: false }
}

/** Every decision of the library's, with the defaults, over `count` upstreams. */
export function balancerOf(count: number): Balancer {
  const config = parseOptions({ key: 'ip', topology: staticTopology(['http://127.0.0.1:1']) })
  const balancer = new Balancer(config, new ProxyEventEmitter(silentLogger))
  finish(balancer.update(topologyOf(count)))
  return balancer
}

/** A lease for a key that lies at `position`. */
export function lease(balancer: Balancer, position: bigint): Lease {
  const chosen = balancer.choose({ position, tried: [], longLived: false })
  if (chosen instanceof Lease) return chosen
  throw new Error(`expected a lease, got ${chosen.reason}`)
}

/** As many keys of 15 bytes. */
export const keysOf = (count: number): string[] =>
  Array.from({ length: count }, (_, index) => `user-${String(index * 7_919).padStart(10, '0')}`)
