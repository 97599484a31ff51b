import { expect } from 'vitest'
import { metricOf } from '../support/metrics.ts'
import { eventually } from '../support/servers.ts'
import { etcdSource, fault, prefix, scaled } from './fault.ts'

fault('two gateways at one revision, one with another seed', async (stage) => {
  const [upstreams, etcd] = await Promise.all([stage.upstreams('a', 'b', 'c'), stage.etcd()])
  for (const { id, url } of upstreams) await etcd.put(`${prefix}upstreams/${id}`, { url })
  const intervalMs = scaled(500, 3_000)
  const start = (seed: number) =>
    stage.gateway({ topology: etcdSource(etcd.endpoint, { report: { intervalMs } }), ring: { seed } })
  const alike = [await start(7), await start(7)]
  const traffic = stage.traffic({ ports: alike.map(({ port }) => port), perSecond: scaled(100, 1_000) })
  await Promise.all(alike.map(({ proxy }) => proxy.ready()))
  await new Promise((resolve) => setTimeout(resolve, 2 * intervalMs))
  for (const { proxy } of alike) expect(await metricOf(proxy, 'digest_mismatch')).toBe(0)

  const odd = await start(8)
  await odd.proxy.ready()
  const started = performance.now()
  const seenBy = async ({ proxy }: (typeof alike)[number]) =>
    ((await metricOf(proxy, 'digest_mismatch')) ?? 0) > 0
  await eventually('all three to see it', async () =>
    (await Promise.all([odd, ...alike].map(seenBy))).every(Boolean),
  )
  // What it writes at its start the others read at their next turn.
  expect(stage.converged(started)).toBeLessThan(2 * intervalMs + 500)
  const account = stage.take(await traffic.stop(upstreams))
  expect([...account.failed, ...account.lost]).toEqual([])
})
