import { expect } from 'vitest'
import type { EtcdTopologyOptions } from '../../src/index.ts'
import { eventually } from '../support/servers.ts'
import { startCluster } from './cluster-stage.ts'
import { fault, prefix, type Stage, scaled, sleep } from './fault.ts'

const ids = ['a', 'b', 'c', 'd', 'e']
const usualGracePeriodMs = scaled(3_000, 60_000)

/** Five upstreams that live, whatever etcd says. */
async function startFive(
  stage: Stage,
  { onEmpty = 'keep', gracePeriodMs = usualGracePeriodMs }: Partial<EtcdTopologyOptions> = {},
) {
  const cluster = await startCluster(stage, { ids, registered: ids, etcd: { gracePeriodMs, onEmpty } })
  const etcdIsEmptyOf = (count: number) =>
    eventually('the keys to go', async () => {
      const { kvs } = await cluster.etcd.client.getAll().prefix(`${prefix}upstreams/`).exec()
      return kvs.length === ids.length - count
    })
  /** Resolves when so many are gone from etcd and held. */
  const holds = async (count: number) => {
    await etcdIsEmptyOf(count)
    await eventually('the hold', () => cluster.proxy.status().degraded)
    await sleep(usualGracePeriodMs / 2)
    expect(cluster.ids()).toEqual(ids)
    expect(cluster.proxy.status().degraded).toBe(true)
  }
  return { ...cluster, holds }
}

fault('all leases expire within a few seconds, one event each, and come back', async (stage) => {
  const cluster = await startFive(stage)
  await Promise.all(ids.map((id, index) => cluster.lease(id, 1 + Math.floor(index / 2))))
  await cluster.holds(5)
  await sleep(usualGracePeriodMs)
  expect(cluster.ids()).toEqual(ids) // an empty set is not obeyed
  for (const id of ids) await cluster.register(id)
  await cluster.converges(...ids)
  await cluster.end()
})

fault('leases of three of five upstreams expire', async (stage) => {
  const cluster = await startFive(stage)
  await Promise.all(['a', 'b', 'c'].map((id) => cluster.lease(id, 1)))
  await cluster.holds(3)
  await cluster.converges('d', 'e')
  expect(stage.result.convergedMs).toBeLessThan(usualGracePeriodMs)
  await cluster.end()
})

fault('leases of two of five upstreams expire', async (stage) => {
  const cluster = await startFive(stage)
  await Promise.all(['a', 'b'].map((id) => cluster.lease(id, 1)))
  await eventually('the first to go', () => cluster.ids().length < 5)
  await cluster.converges('c', 'd', 'e')
  expect(stage.result.convergedMs).toBeLessThan(usualGracePeriodMs)
  await cluster.end()
})

fault('the prefix is deleted', async (stage) => {
  const cluster = await startFive(stage)
  await cluster.etcd.client.delete().prefix(prefix)
  await cluster.holds(5)
  await sleep(usualGracePeriodMs)
  expect(cluster.ids()).toEqual(ids)
  expect(cluster.proxy.status().degraded).toBe(true)
  await cluster.end()
})

fault('the prefix is deleted and an empty set is to be obeyed', async (stage) => {
  const cluster = await startFive(stage, { onEmpty: 'obey', gracePeriodMs: usualGracePeriodMs + 8_000 })
  await cluster.etcd.client.delete().prefix(prefix)
  await cluster.holds(5)
  await cluster.end() // well before the set is obeyed: then requests fail
  await sleep(usualGracePeriodMs / 2)
  await cluster.converges()
  const { status, headers } = await fetch(`http://127.0.0.1:${cluster.port}/`)
  expect(status).toBe(503)
  expect(Number(headers.get('retry-after'))).toBeGreaterThan(0)
})

fault('a scale-down of 60% by draining', async (stage) => {
  const cluster = await startFive(stage)
  const leaving = ['a', 'b', 'c']
  for (const id of leaving) await cluster.etcd.put(`${prefix}overrides/${id}`, { state: 'draining' })
  const isOffTheRing = () =>
    cluster.proxy.status().upstreams.every(({ share, state }) => share === 0 || state === 'active')
  await eventually('all three to be off the ring', isOffTheRing)
  await eventually('their last requests', () =>
    cluster.proxy.status().upstreams.every(({ state, inFlight }) => state === 'active' || inFlight === 0),
  )
  for (const id of leaving) await cluster.leave(id)
  await cluster.converges('d', 'e')
  expect(stage.result.convergedMs).toBeLessThan(usualGracePeriodMs / 2)
  await cluster.end()
})
