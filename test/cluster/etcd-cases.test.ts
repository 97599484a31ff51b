import { describe, expect, it, onTestFinished } from 'vitest'
import { type EtcdTopologyOptions, etcdTopology, HashRing } from '../../src/index.ts'
import { startTestEtcd } from '../support/cluster.ts'
import type { EtcdProcess } from '../support/etcd.ts'
import { seriesOf } from '../support/metrics.ts'
import { Relay } from '../support/relay.ts'
import { eventually, keyOwnedBy, startGateway, startUpstreams } from '../support/servers.ts'

const prefix = '/consistent-hash-proxy/test/'
const portOf = ({ endpoint }: EtcdProcess) => Number(new URL(endpoint).port)

async function startRelay(etcd: EtcdProcess): Promise<Relay> {
  const relay = await Relay.start(portOf(etcd))
  onTestFinished(() => relay.close())
  return relay
}

/** A gateway with U1 and U2 registered of four upstreams that run. */
async function startCluster(
  etcd: EtcdProcess,
  options: Partial<EtcdTopologyOptions> = {},
  healthCheck = false,
) {
  const upstreams = await startUpstreams(['U1', 'U2', 'U3', 'U4'])
  const urls = Object.fromEntries(upstreams.map(({ id, url }) => [id, url]))
  const register = (id: string) => etcd.put(`${prefix}upstreams/${id}`, { url: urls[id] })
  const leave = (id: string) => etcd.delete(`${prefix}upstreams/${id}`)
  await register('U1')
  await register('U2')
  const gateway = await startGateway({
    key: 'header:x-user-id',
    topology: etcdTopology({ hosts: etcd.endpoint, prefix, ...options }),
    ...(healthCheck && { healthCheck: { intervalMs: 50 } }),
  })
  await gateway.proxy.ready()
  const status = () => gateway.proxy.status()
  const isLive = () => eventually('a live watch', () => status().source.state === 'live', 15_000)
  await isLive()
  const topologies: { added: string[]; removed: string[]; changed: string[] }[] = []
  gateway.proxy.on('topology', ({ added, removed, changed }) => topologies.push({ added, removed, changed }))
  const ids = () => status().upstreams.map(({ id }) => id)
  const hasExactly = (...expected: string[]) =>
    eventually(`exactly ${expected}`, () => ids().join() === expected.join(), 15_000)
  return { ...gateway, upstreams, register, leave, status, isLive, topologies, ids, hasExactly }
}

describe('nothing is lost for good', () => {
  it('apache/apisix#13067: two events swallowed on their way, then a reset', async () => {
    const etcd = await startTestEtcd()
    const relay = await startRelay(etcd)
    const cluster = await startCluster(etcd, { hosts: relay.url, report: false })
    const direct = etcdTopology({ hosts: etcd.endpoint, prefix, report: false })
    const witness = await startGateway({ key: 'ip', topology: direct })
    await witness.proxy.ready()
    relay.swallows = true
    await cluster.register('U3')
    await cluster.leave('U2')
    // Another watch has them, so this one's are sent.
    await eventually(
      'both events',
      () =>
        witness.proxy
          .status()
          .upstreams.map(({ id }) => id)
          .join() === 'U1,U3',
    )
    expect(cluster.ids()).toEqual(['U1', 'U2'])
    relay.reset()
    relay.swallows = false
    await cluster.hasExactly('U1', 'U3')
    await cluster.isLive()
    await cluster.register('U4')
    await cluster.hasExactly('U1', 'U3', 'U4')
  })

  it('apache/apisix#2680, etcd-io/etcd#8668, kubernetes/kubernetes#83938: compaction past the watched revision', async () => {
    const etcd = await startTestEtcd()
    const relay = await startRelay(etcd)
    const cluster = await startCluster(etcd, { hosts: relay.url, report: false })
    const key = keyOwnedBy(new HashRing(['U1', 'U3']), 'U1')
    const before = relay.connections
    relay.refuse()
    relay.reset()
    await eventually('the loss', () => cluster.status().source.state === 'lost')
    await cluster.leave('U2')
    await cluster.register('U3')
    for (let round = 0; round < 100; round += 1) await cluster.register('U3')
    await etcd.compact()
    await relay.accept()
    await cluster.isLive()
    await cluster.hasExactly('U1', 'U3')
    // U1 is neither removed nor added: what is known of it stays. One new session, in three connections, is no loop.
    expect(cluster.topologies).toEqual([{ added: ['U3'], removed: ['U2'], changed: [] }])
    expect(relay.connections - before).toBeLessThanOrEqual(3)
    expect(await (await fetch(cluster.url, { headers: { 'x-user-id': key } })).text()).toBe('U1')
  })

  it('microsoft/etcd3#31, #72, #78, etcd-io/jetcd#523: restarted, and ended cleanly; then U4', async () => {
    const etcd = await startTestEtcd()
    const cluster = await startCluster(etcd)
    for (const [signal, id] of [
      ['SIGKILL', 'U3'],
      ['SIGTERM', 'U4'],
    ] as const) {
      await etcd.kill(signal)
      await eventually('the loss to be visible', () => cluster.status().source.state === 'lost')
      expect(cluster.status().source).toMatchObject({ error: expect.stringContaining(etcd.endpoint) })
      await etcd.start()
      const begin = performance.now()
      await cluster.register(id)
      await eventually(id, () => cluster.ids().includes(id))
      expect(performance.now() - begin).toBeLessThan(5000)
    }
    await cluster.hasExactly('U1', 'U2', 'U3', 'U4')
  })

  it('etcd-io/etcd#8980: an etcd that stands still, beside another endpoint of it', async () => {
    const etcd = await startTestEtcd()
    // Two ways to one store: the first stops passing anything on, without closing.
    const [first, second] = [await startRelay(etcd), await startRelay(etcd)]
    const options = { hosts: [first.url, second.url], reconcileIntervalMs: 300, requestTimeoutMs: 500 }
    const cluster = await startCluster(etcd, { ...options, connectTimeoutMs: 500, report: false })
    first.stall()
    await eventually('the loss', () => cluster.status().source.state === 'lost')
    await cluster.register('U3')
    await cluster.hasExactly('U1', 'U2', 'U3')
    await cluster.isLive()
    expect(second.connections).toBeGreaterThan(0)
  })

  it('apache/apisix#11144, #10422: etcd wiped and empty: the last good set is kept, loudly, until others come', async () => {
    const etcd = await startTestEtcd()
    for (let round = 0; round < 50; round += 1) await etcd.put('/elsewhere', String(round))
    const cluster = await startCluster(etcd)
    const held: (readonly string[])[] = []
    cluster.proxy.on('held', ({ upstreams }) => held.push(upstreams))
    await etcd.restart({ wipe: true })
    await eventually('the new epoch', () => cluster.status().epoch === 1)
    await cluster.isLive()
    expect(cluster.status()).toMatchObject({ held: ['U1', 'U2'], degraded: true })
    expect((await fetch(cluster.url)).status).toBe(200)
    await cluster.register('U1')
    await eventually('U1 to be there again', () => cluster.status().held.join() === 'U2')
    await cluster.register('U2')
    await eventually('both', () => cluster.status().held.length === 0)
    expect(cluster.status()).toMatchObject({ degraded: false, epoch: 1 })
    expect(held).toEqual([['U1', 'U2'], ['U2'], []])
    // Neither ever left: what is known of them stays.
    expect(cluster.topologies.flatMap(({ added, removed }) => [...added, ...removed])).toEqual([])
  })
})

it('apache/apisix#2369, #7610, #13141: of U2, replaced by U4, nothing is left', async () => {
  const etcd = await startTestEtcd()
  const cluster = await startCluster(etcd, {}, true)
  const [, u2] = cluster.upstreams
  const ask = (user: number) => fetch(cluster.url, { headers: { 'x-user-id': `user-${user}` } })
  for (let user = 0; user < 50; user += 1) await (await ask(user)).text()
  expect(u2?.received.filter(({ url }) => url === '/').length).toBeGreaterThan(0)
  await eventually('a probe', () => u2?.received.some(({ url }) => url === '/healthz'))
  await etcd.client
    .if('absent', 'Version', '==', 0)
    .then(
      etcd.client.put(`${prefix}upstreams/U4`).value(JSON.stringify({ url: cluster.upstreams[3]?.url })),
      etcd.client.delete().key(`${prefix}upstreams/U2`),
    )
    .commit()
  await cluster.hasExactly('U1', 'U4')
  const connections = () =>
    new Promise<number>((resolve, reject) =>
      u2?.server.getConnections((error, count) => (error ? reject(error) : resolve(count))),
    )
  await eventually('no socket', async () => (await connections()) === 0)
  const count = u2?.count
  for (let user = 0; user < 50; user += 1) expect(['U1', 'U4']).toContain(await (await ask(user)).text())
  // Five times the interval of the probes: those of U4 show that they go on.
  const probesOf = (index: number) =>
    cluster.upstreams[index]?.received.filter(({ url }) => url === '/healthz').length ?? 0
  const probed = probesOf(3)
  await eventually('five probes of U4', () => probesOf(3) >= probed + 5)
  expect(u2?.count).toBe(count)
  expect(await connections()).toBe(0)
  expect((await seriesOf(cluster.proxy)).filter(({ labels }) => labels.upstream === 'U2')).toEqual([])
  expect(cluster.status().degraded).toBe(false)
})
