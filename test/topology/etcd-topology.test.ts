import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { TopologySourceError } from '../../src/errors.ts'
import { etcdTopology } from '../../src/topology/etcd/etcd-topology.ts'
import { type EtcdProcess, startEtcd } from '../support/etcd.ts'
import { Followed } from './follow.ts'

let etcd: EtcdProcess
let prefix: string
let followed: Followed | undefined
let count = 0

beforeAll(async () => {
  etcd = await startEtcd()
})
afterAll(() => etcd.stop())
beforeEach(() => {
  count += 1
  prefix = `/test/${count}/`
})
afterEach(async () => {
  await followed?.feed.close()
  followed = undefined
})

const open = (options = {}) => {
  followed = new Followed(etcdTopology({ hosts: etcd.endpoint, prefix, ...options }))
  return followed
}
const register = (name: string, value: string | object) => etcd.put(`${prefix}upstreams/${name}`, value)
const override = (id: string, value: string | object) => etcd.put(`${prefix}overrides/${id}`, value)

describe('what it reads', () => {
  it('starts with everything there is', async () => {
    await register('b', 'http://10.0.0.2:80')
    await register('a', {
      url: 'http://10.0.0.1/base',
      weight: 2,
      state: 'warming',
      zone: 'z',
      metadata: { rack: 7 },
    })
    await register('c', { Op: 0, Addr: '10.0.0.3:8080', Metadata: { rack: 8 } })
    await override('b', { weight: 0.5, state: 'draining' })
    await override('nobody', { weight: 3 })
    const revision = await etcd.revision()
    const gateway = open()
    await gateway.untilLive()
    expect(gateway.latest).toMatchObject({ epoch: 0, revision, degraded: false })
    expect(gateway.latest.upstreams).toEqual([
      { id: 'a', url: 'http://10.0.0.1/base', weight: 2, state: 'warming', zone: 'z', metadata: { rack: 7 } },
      { id: 'b', url: 'http://10.0.0.2', weight: 0.5, state: 'draining' },
      { id: 'c', url: 'http://10.0.0.3:8080', weight: 1, state: 'active', metadata: { rack: 8 } },
    ])
    expect(gateway.topologies).toHaveLength(1)
  })

  it('gives an empty topology for an empty prefix, and one id to all who watch the same', async () => {
    const gateway = open()
    const other = new Followed(etcdTopology({ hosts: etcd.endpoint, prefix: prefix.slice(0, -1) }))
    const stranger = new Followed(etcdTopology({ hosts: etcd.endpoint, prefix: `${prefix}other/` }))
    await Promise.all([gateway.untilLive(), other.untilLive(), stranger.untilLive()])
    expect(gateway.latest.upstreams).toEqual([])
    expect(other.latest.id).toBe(gateway.latest.id)
    expect(stranger.latest.id).not.toBe(gateway.latest.id)
    await Promise.all([other.feed.close(), stranger.feed.close()])
  })

  it('follows puts, overrides and deletions', async () => {
    const gateway = open()
    await gateway.untilLive()
    const latencies: number[] = []
    for (let index = 0; index < 20; index += 1) {
      const begin = performance.now()
      await register(`u${String(index).padStart(2, '0')}`, 'http://10.0.0.1')
      await gateway.until(() => gateway.ids.length === index + 1)
      latencies.push(performance.now() - begin)
    }
    latencies.sort((left, right) => left - right)
    console.log(
      `put to topology: median ${latencies[10]?.toFixed(1)} ms, worst ${latencies[19]?.toFixed(1)} ms`,
    )
    expect(gateway.latest.revision).toBe(await etcd.revision())

    await override('u03', { state: 'draining' })
    await gateway.until(() => gateway.upstream('u03')?.state === 'draining')
    await register('u03', { url: 'http://10.0.0.9', state: 'active' })
    await gateway.until(() => gateway.upstream('u03')?.url === 'http://10.0.0.9')
    expect(gateway.upstream('u03')?.state).toBe('draining')
    await etcd.delete(`${prefix}overrides/u03`)
    await gateway.until(() => gateway.upstream('u03')?.state === 'active')
    await etcd.delete(`${prefix}upstreams/u03`)
    await gateway.until(() => gateway.upstream('u03') === undefined)
  })

  it('hears nothing of writes outside its folders', async () => {
    const gateway = open()
    await gateway.untilLive()
    await etcd.put(`${prefix}gateways/g1`, 'x')
    await etcd.put(`${prefix}phases/p1`, 'x')
    await etcd.put(`${prefix}upstreams`, 'http://10.0.0.1')
    await etcd.put(`${prefix.slice(0, -1)}0/upstreams/a`, 'http://10.0.0.1')
    await register('last', 'http://10.0.0.1')
    await gateway.untilIds('last')
    expect(gateway.topologies).toHaveLength(2)
    expect(gateway.statuses).toEqual([{ state: 'live' }])
  })

  it('takes a transaction as one change (envoyproxy/envoy#45212)', async () => {
    await register('u1', 'http://10.0.0.1')
    const gateway = open()
    await gateway.untilLive()
    await etcd.client
      .if('absent', 'Version', '==', 0)
      .then(
        etcd.client.put(`${prefix}upstreams/u2`).value('http://10.0.0.2'),
        etcd.client.put(`${prefix}upstreams/u1`).value('http://10.0.0.1'),
        etcd.client.put(`${prefix}overrides/u2`).value('{"weight":5}'),
      )
      .commit()
    await gateway.untilIds('u1', 'u2')
    expect(gateway.upstream('u2')?.weight).toBe(5)
    expect(gateway.topologies).toHaveLength(2)
  })

  it('changes a bare URL for JSON with an id of its own (haproxy/haproxy#3413)', async () => {
    await register('one', 'http://10.0.0.1')
    await register('two', 'http://10.0.0.1')
    const gateway = open()
    await gateway.untilIds('one', 'two')
    await register('one', { id: 'other', url: 'http://10.0.0.1' })
    await gateway.untilIds('other', 'two')
    expect(gateway.topologies).toHaveLength(2)
  })

  it('uses a decoder of the user’s own, and checks what it gives', async () => {
    await register('good', '10.0.0.1')
    await register('bad', '10.0.0.2')
    await register('worse', 'boom')
    const decode = (value: Buffer, name: string) => {
      if (value.toString() === 'boom') throw new TypeError('no address')
      return { id: `${name}!`, url: `http://${value}` }
    }
    const gateway = open({ decode, allowedHosts: ['10.0.0.1'] })
    await gateway.untilIds('good!')
    expect(gateway.refused.map(([entry, { reason }]) => [entry, reason])).toEqual([
      [`${prefix}upstreams/bad`, 'host'],
      [`${prefix}upstreams/worse`, 'field'],
    ])
  })
})

describe('what it refuses', () => {
  it('refuses a bad value alone, once, and keeps the last good one', async () => {
    await register('a', { url: 'http://10.0.0.1', weight: 2 })
    await register('b', 'nonsense')
    const gateway = open({ gracePeriodMs: 0 })
    await gateway.untilLive()
    expect(gateway.ids).toEqual(['a'])
    expect(gateway.latest.degraded).toBe(true)
    await register('b', 'http://10.0.0.2')
    await gateway.untilIds('a', 'b')
    expect(gateway.latest.degraded).toBe(false)

    await register('a', { url: 'http://10.0.0.1', weight: 0 })
    await gateway.until(() => gateway.latest.degraded)
    expect(gateway.upstream('a')?.weight).toBe(2)
    await register('a', { url: 'http://10.0.0.1', weight: 0 })
    await override('a', { state: 'gone' })
    await override('b', { state: 'draining' })
    await gateway.until(() => gateway.upstream('b')?.state === 'draining')
    expect(gateway.ids).toEqual(['a', 'b'])
    await gateway.feed.refresh()
    expect(gateway.refused.map(([entry, { reason }]) => [entry.slice(prefix.length), reason])).toEqual([
      ['upstreams/b', 'url'],
      ['upstreams/a', 'weight'],
      ['overrides/a', 'field'],
    ])
    await etcd.delete(`${prefix}upstreams/a`)
    await gateway.untilIds('b')
  })

  it('gives an id to the smaller key', async () => {
    const gateway = open()
    await gateway.untilLive()
    await register('k2', { id: 'same', url: 'http://10.0.0.2' })
    await gateway.untilIds('same')
    await register('k1', { id: 'same', url: 'http://10.0.0.1' })
    await gateway.until(() => gateway.latest.degraded)
    expect(gateway.latest.upstreams.map(({ url }) => url)).toEqual(['http://10.0.0.1'])
    await register('unrelated', 'http://10.0.0.3')
    await gateway.untilIds('same', 'unrelated')
    expect(gateway.refused.map(([entry, { reason }]) => [entry, reason])).toEqual([
      [`${prefix}upstreams/k2`, 'duplicate'],
    ])
    await etcd.delete(`${prefix}upstreams/k1`)
    await gateway.until(() => !gateway.latest.degraded)
    expect(gateway.upstream('same')?.url).toBe('http://10.0.0.2')
  })
})

describe('refresh', () => {
  it('hands over what is in etcd before it resolves, in one shared read', async () => {
    const gateway = open()
    await gateway.untilLive()
    for (let index = 0; index < 30; index += 1) {
      await register(`u${index}`, 'http://10.0.0.1')
      const first = gateway.feed.refresh()
      expect(gateway.feed.refresh()).toBe(first)
      await first
      expect(gateway.ids).toHaveLength(index + 1)
    }
    // Watch and refresh together told each change once, in order.
    expect(gateway.topologies.map(({ upstreams }) => upstreams.length)).toEqual([...Array(31).keys()])
    expect(gateway.statuses).toEqual([{ state: 'live' }])
  })

  it('rejects at once when it is not connected', async () => {
    const gateway = new Followed(etcdTopology({ hosts: 'http://127.0.0.1:1', prefix }))
    const begin = performance.now()
    await expect(gateway.feed.refresh()).rejects.toThrow(TopologySourceError)
    await gateway.until(() => gateway.statuses.length > 0)
    await expect(gateway.feed.refresh()).rejects.toThrow(
      /connecting: etcd at http:\/\/127\.0\.0\.1:1 cannot be reached/,
    )
    expect(performance.now() - begin).toBeLessThan(1500)
    await gateway.feed.close()
    await expect(gateway.feed.refresh()).rejects.toThrow(/closed/)
  })
})
