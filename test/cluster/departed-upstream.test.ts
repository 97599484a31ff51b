import { describe, expect, it } from 'vitest'
import { etcdTopology, HashRing } from '../../src/index.ts'
import { startTestEtcd } from '../support/cluster.ts'
import { LateTopology } from '../support/late-topology.ts'
import { eventually, keyOwnedBy, startGateway, startUpstreams } from '../support/servers.ts'

const prefix = '/consistent-hash-proxy/test/'

async function startCluster() {
  const etcd = await startTestEtcd()
  const upstreams = await startUpstreams(['U1', 'U2', 'U3'])
  for (const { id, url } of upstreams) await etcd.put(`${prefix}upstreams/${id}`, { url })
  const source = new LateTopology(etcdTopology({ hosts: etcd.endpoint, prefix }))
  // No load bound: 30 requests at once may overflow, and which owner answers is what is asked.
  const gateway = await startGateway({ key: 'header:x-user-id', topology: source, boundedLoad: false })
  await gateway.proxy.ready()
  await eventually('three upstreams', () => gateway.proxy.status().upstreams.length === 3)
  return { etcd, upstreams, source, gateway }
}

const keysOfU2 = (count: number) => {
  const ring = new HashRing(['U1', 'U2', 'U3'])
  return Array.from({ length: count }, (_, index) => keyOwnedBy(ring, 'U2', `user-${index}-`))
}

describe('an upstream that left', () => {
  it('gadget-inc/silo#234, #396: connect errors alone start one re-read, shared by all that wait', async () => {
    const { etcd, upstreams, source, gateway } = await startCluster()
    source.hold()
    await upstreams[1]?.stop()
    await etcd.delete(`${prefix}upstreams/U2`)
    const answers = await Promise.all(
      keysOfU2(30).map((key) =>
        fetch(gateway.url, { method: 'POST', body: key, headers: { 'x-user-id': key } }),
      ),
    )
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
    const survivors = new HashRing(['U1', 'U3'])
    for (const [index, key] of keysOfU2(30).entries()) {
      expect(await answers[index]?.text()).toBe(survivors.owner(key))
    }
    expect(source.reads).toBe(1)
    expect(gateway.proxy.status().upstreams.map(({ id }) => id)).toEqual(['U1', 'U3'])
    const metrics = await gateway.proxy.metrics?.metrics()
    expect(metrics).toMatch(/stale_topology_signs_total\{sign="connect",confirmed="true"\} [1-9]/)
    expect(metrics).not.toContain('upstream="U2"')
  })

  it('gadget-inc/silo#396: an entry with an empty address never becomes a target', async () => {
    const { etcd, gateway } = await startCluster()
    for (const [id, value] of Object.entries({
      e1: '',
      e2: { url: '' },
      e3: { Op: 0, Addr: '' },
      e4: { url: 'http://' },
    })) {
      await etcd.put(`${prefix}upstreams/${id}`, value)
    }
    await eventually('degraded', () => gateway.proxy.status().degraded)
    await eventually('all four refused', async () => {
      const metrics = (await gateway.proxy.metrics?.metrics()) ?? ''
      const counts = [...metrics.matchAll(/refused_entries_total\{.*\} (\d+)/g)].map(([, count]) =>
        Number(count),
      )
      return counts.reduce((sum, count) => sum + count, 0) === 4
    })
    expect(gateway.proxy.status().upstreams.map(({ id }) => id)).toEqual(['U1', 'U2', 'U3'])
  })

  it('traefik/traefik#1299: a key whose upstream is gone has 200 from the new owner, always', async () => {
    const { etcd, upstreams, gateway } = await startCluster()
    await etcd.delete(`${prefix}upstreams/U2`)
    await eventually('two upstreams', () => gateway.proxy.status().upstreams.length === 2)
    await upstreams[1]?.stop()
    const survivors = new HashRing(['U1', 'U3'])
    for (const key of keysOfU2(50)) {
      const answer = await fetch(gateway.url, { headers: { 'x-user-id': key } })
      expect([answer.status, await answer.text()]).toEqual([200, survivors.owner(key)])
    }
  })
})
