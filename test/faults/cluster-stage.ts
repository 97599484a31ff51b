import { expect } from 'vitest'
import type { EtcdTopologyOptions } from '../../src/index.ts'
import { eventually } from '../support/servers.ts'
import { etcdSource, prefix, type Stage, scaled, sleep } from './fault.ts'

const timeToConverge = 20_000

export interface ClusterOptions {
  readonly flags?: readonly string[]
  readonly etcd?: Partial<EtcdTopologyOptions>
  /** Ids of the upstreams. Default a, b, c, d. */
  readonly ids?: readonly string[]
  /** Ids of those that are registered at first. Default a, b, c. */
  readonly registered?: readonly string[]
}

/**
 * Upstreams, most of them registered in etcd; a gateway that sees etcd through a relay only; and traffic. Whatever
 * happens to etcd, no request may fail.
 */
export async function startCluster(stage: Stage, options: ClusterOptions = {}) {
  const [upstreams, etcd] = await Promise.all([
    stage.upstreams(...(options.ids ?? ['a', 'b', 'c', 'd'])),
    stage.etcd(options.flags),
  ])
  const registration = (id: string) => JSON.stringify({ url: upstreams.find((one) => one.id === id)?.url })
  const register = (id: string) => etcd.put(`${prefix}upstreams/${id}`, registration(id))
  const leave = (id: string) => etcd.delete(`${prefix}upstreams/${id}`)
  for (const id of options.registered ?? ['a', 'b', 'c']) await register(id)
  const relay = await stage.relay(Number(new URL(etcd.endpoint).port))
  const { proxy, port } = await stage.gateway({ topology: etcdSource(relay.url, options.etcd) })
  await eventually('a live watch', () => proxy.status().source.state === 'live', timeToConverge)
  const traffic = stage.traffic({ ports: [port], perSecond: scaled(100, 1_000) })
  await sleep(scaled(500, 5_000))
  const changes: { added: string[]; removed: string[]; changed: string[] }[] = []
  proxy.on('topology', ({ added, removed, changed }) => changes.push({ added, removed, changed }))

  return {
    ...{ etcd, relay, proxy, port, register, leave, upstreams, changes },
    /** Registers under a lease that nobody keeps alive. */
    async lease(id: string, seconds: number): Promise<void> {
      const { ID } = await etcd.client.leaseClient.leaseGrant({ TTL: seconds, ID: 0 })
      await etcd.client.put(`${prefix}upstreams/${id}`).value(registration(id)).lease(ID).exec()
    },
    ids: () => proxy.status().upstreams.map(({ id }) => id),
    /** Waits until the gateway says that etcd is away. */
    away: () => eventually('the loss of etcd', () => proxy.status().source.state === 'lost', timeToConverge),
    /** Waits until the gateway has exactly these upstreams and a live watch. */
    async converges(...ids: string[]): Promise<void> {
      const started = performance.now()
      const isThere = () => {
        const { upstreams, source, degraded } = proxy.status()
        return upstreams.map(({ id }) => id).join() === ids.join() && source.state === 'live' && !degraded
      }
      await eventually(`exactly ${ids} and a live watch`, isThere, timeToConverge)
      stage.converged(started)
    },
    /** Ends the traffic: nothing has failed, nothing is lost. */
    async end(): Promise<void> {
      await sleep(scaled(500, 5_000))
      const account = stage.take(await traffic.stop(upstreams))
      expect(account.failed).toEqual([])
      expect(account.unsafeFailed).toEqual([])
      expect(account.lost).toEqual([])
      expect(account.executedTwice).toEqual([])
      expect(proxy.status().inFlight).toBe(0)
    },
  }
}
