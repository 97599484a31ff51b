import { describe, expect, it } from 'vitest'
import { type ConsistentHashProxyOptions, etcdTopology } from '../../src/index.ts'
import { startTestEtcd } from '../support/cluster.ts'
import type { EtcdProcess } from '../support/etcd.ts'
import { metricOf } from '../support/metrics.ts'
import { eventually, startGateway, startUpstreams } from '../support/servers.ts'

const prefix = '/consistent-hash-proxy/test/'

interface Told {
  readonly warnings: string[]
  readonly mismatches: (readonly string[])[]
}

async function startReporting(
  etcd: EtcdProcess,
  gatewayId: string,
  options: Partial<ConsistentHashProxyOptions> = {},
  access: object = {},
) {
  const told: Told = { warnings: [], mismatches: [] }
  const nothing = () => {}
  const gateway = await startGateway({
    key: 'header:x-user-id',
    topology: etcdTopology({
      ...{ hosts: etcd.endpoint, prefix, report: { gatewayId, intervalMs: 200 } },
      ...access,
    }),
    logger: {
      ...{ debug: nothing, info: nothing, error: nothing },
      warn: (fields, message) => told.warnings.push(`${message} ${JSON.stringify(fields)}`),
    },
    ...options,
  })
  gateway.proxy.on('digestMismatch', ({ gateways }) => told.mismatches.push(gateways))
  await gateway.proxy.ready()
  return { ...gateway, ...told, mismatch: () => metricOf(gateway.proxy, 'digest_mismatch') }
}

async function reportsIn(etcd: EtcdProcess) {
  const values = await etcd.client.getAll().prefix(`${prefix}gateways/`).json()
  const leases = (await etcd.client.getAll().prefix(`${prefix}gateways/`).exec()).kvs.map(
    ({ lease }) => lease,
  )
  const byId = Object.entries(values).map(([key, value]) => [key.slice(`${prefix}gateways/`.length), value])
  return { reports: Object.fromEntries(byId) as Record<string, Record<string, unknown> | undefined>, leases }
}

describe('gateways that report to each other', () => {
  it('write what they are under a lease, with the load of each upstream, and take it back', async () => {
    const etcd = await startTestEtcd()
    const [upstream] = await startUpstreams(['u1'])
    await etcd.put(`${prefix}upstreams/u1`, { url: upstream?.url })
    const gateway = await startReporting(etcd, 'g1', { ring: { seed: 123_456_789 } })
    const report = async () => (await reportsIn(etcd)).reports.g1
    await eventually('a report', report)
    const { revision, ring } = gateway.proxy.status()
    expect(await report()).toEqual({
      ...{ epoch: 0, revision, digest: ring.digest, degraded: false, requestsPerSecond: {} },
      settings: {
        virtualNodes: 160,
        hash: 'xxh64',
        hashTags: false,
        seed: expect.stringMatching(/^[0-9a-f]{16}$/),
      },
    })
    expect(JSON.stringify(await report())).not.toContain('123456789')
    expect((await reportsIn(etcd)).leases).toEqual([expect.not.stringMatching(/^0$/)])

    for (let request = 0; request < 10; request += 1) await fetch(gateway.url)
    await eventually('its load', async () => JSON.stringify(await report()).includes('"u1":2'))
    await etcd.put(`${prefix}overrides/u1`, { weight: 2 })
    await eventually(
      'the next revision',
      async () => (await report())?.revision === gateway.proxy.status().revision,
    )
    expect(gateway.proxy.status().revision).not.toBe(revision)
    await gateway.close()
    expect((await reportsIn(etcd)).reports).toEqual({})
    expect(gateway.warnings).toEqual([])
  })

  it('see another seed in both, warn once, and see it resolved', async () => {
    const etcd = await startTestEtcd()
    for (const id of ['u1', 'u2']) await etcd.put(`${prefix}upstreams/${id}`, 'http://127.0.0.1:9')
    const first = await startReporting(etcd, 'g1')
    const alike = await startReporting(etcd, 'g2')
    await eventually('two reports', async () => Object.keys((await reportsIn(etcd)).reports).length === 2)
    const other = await startReporting(etcd, 'g3', { ring: { seed: 1 } })
    await eventually(
      'both to see it',
      async () => (await first.mismatch()) === 1 && (await other.mismatch()) === 2,
    )
    expect(first.proxy.status().digestMismatch).toEqual(['g3'])
    expect(other.proxy.status().digestMismatch).toEqual(['g1', 'g2'])
    await etcd.put(`${prefix}upstreams/u3`, 'http://127.0.0.1:9')
    await eventually('the third', () => first.proxy.status().upstreams.length === 3)
    expect(await first.mismatch()).toBe(1)
    await other.close()
    await eventually(
      'agreement',
      async () => (await first.mismatch()) === 0 && (await alike.mismatch()) === 0,
    )
    expect(first.mismatches).toEqual([['g3'], []])
    expect(first.warnings).toEqual([expect.stringMatching(/place keys otherwise.*\["g3"\]/)])
  })

  it('are not heard by the watch of the topology', async () => {
    const etcd = await startTestEtcd()
    await etcd.put(`${prefix}upstreams/u1`, 'http://127.0.0.1:9')
    const gateway = await startReporting(etcd, 'g1')
    const { revision } = gateway.proxy.status()
    let changes = 0
    gateway.proxy.on('topology', () => {
      changes += 1
    })
    const first = await etcd.revision()
    await eventually('some reports', async () => (await etcd.revision()) > first + 3n)
    expect([gateway.proxy.status().revision, changes]).toEqual([revision, 0])
  })

  it('serve on where their user may not write, say so once, and see the others', async () => {
    const etcd = await startTestEtcd({ auth: true })
    await etcd.client.role('reader').create()
    await etcd.client.role('reader').grant({ permission: 'Read', range: etcd.client.range({ prefix }) })
    await etcd.client.user('reader').create('reader')
    await etcd.client.user('reader').addRole('reader')
    await etcd.put(`${prefix}upstreams/u1`, 'http://127.0.0.1:9')
    const auth = { username: 'reader', password: 'reader' }
    const reader = await startReporting(etcd, 'g1', {}, { auth })
    const writer = await startReporting(etcd, 'g2', { ring: { virtualNodes: 200 } }, { auth: etcd.auth })
    await eventually('the reader to see the writer', async () => (await reader.mismatch()) === 1)
    expect(Object.keys((await reportsIn(etcd)).reports)).toEqual(['g2'])
    expect(await writer.mismatch()).toBe(0)
    expect(reader.warnings.filter((text) => text.includes('not seen'))).toEqual([
      expect.stringContaining('permit its user to write gateways/'),
    ])
    expect(reader.proxy.status().source).toEqual({ state: 'live' })
  })

  it('report again after etcd was away', async () => {
    const etcd = await startTestEtcd()
    await etcd.put(`${prefix}upstreams/u1`, 'http://127.0.0.1:9')
    // Far enough that the reports to come, which are writes too, do not bring a wiped store there again.
    for (let round = 0; round < 100; round += 1) await etcd.put(`${prefix}upstreams/u1`, 'http://127.0.0.1:9')
    const gateway = await startReporting(etcd, 'g1')
    await eventually('a report', async () => (await reportsIn(etcd)).reports.g1)
    await etcd.restart({ wipe: true })
    await etcd.put(`${prefix}upstreams/u1`, 'http://127.0.0.1:9')
    await eventually('a report again', async () => (await reportsIn(etcd)).reports.g1)
    await eventually('its epoch', async () => (await reportsIn(etcd)).reports.g1?.epoch === 1)
    expect(gateway.proxy.status().epoch).toBe(1)
  })
})
