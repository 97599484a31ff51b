import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { HashRing } from '../../src/index.ts'
import { etcdTopology } from '../../src/topology/etcd/etcd-topology.ts'
import { startTestEtcd } from '../support/cluster.ts'
import { eventually, startGateway, startUpstreams } from '../support/servers.ts'

const prefix = '/consistent-hash-proxy/test/'

describe('two gateways on one etcd', () => {
  it('agree on the owner of 10,000 keys, started at different times and with different histories', async () => {
    const etcd = await startTestEtcd()
    const put = (id: string, weight = 1) =>
      etcd.put(`${prefix}upstreams/${id}`, JSON.stringify({ url: `http://127.0.0.1:9/${id}`, weight }))
    const topology = () => etcdTopology({ hosts: etcd.endpoint, prefix })
    for (const id of ['a', 'b', 'c']) await put(id)
    const early = await startGateway({ key: 'header:x-user-id', topology: topology() })
    await early.proxy.ready()
    for (const id of ['d', 'e', 'f']) await put(id, 2)
    await etcd.delete(`${prefix}upstreams/b`)
    await put('d')
    await etcd.delete(`${prefix}upstreams/c`)
    await put('c', 3)
    const late = await startGateway({ key: 'header:x-user-id', topology: topology() })
    await late.proxy.ready()
    await eventually(
      'both at one revision',
      () => early.proxy.status().revision === late.proxy.status().revision,
    )

    const placements = [early, late].map(({ proxy }) => {
      const { ring, upstreams } = proxy.status()
      return { digest: ring.digest, ring: new HashRing(upstreams) }
    })
    expect(placements[0]?.digest).toBe(placements[1]?.digest)
    expect(placements[0]?.ring.digest).toBe(placements[0]?.digest)
    for (let key = 0; key < 10_000; key += 1) {
      expect(placements[0]?.ring.owner(`key-${key}`)).toBe(placements[1]?.ring.owner(`key-${key}`))
    }
  })

  it('have a put or delete live within 100 ms at the median, move exactly the departed keys, and fail no request', async () => {
    const etcd = await startTestEtcd()
    const upstreams = await startUpstreams(['a', 'b', 'c', 'd'])
    const put = (id: string) =>
      etcd.put(
        `${prefix}upstreams/${id}`,
        JSON.stringify({ url: upstreams.find((each) => each.id === id)?.url }),
      )
    for (const { id } of upstreams) await put(id)
    const gateways = await Promise.all(
      [1, 2].map(() =>
        startGateway({ key: 'header:x-user-id', topology: etcdTopology({ hosts: etcd.endpoint, prefix }) }),
      ),
    )
    await Promise.all(gateways.map(({ proxy }) => proxy.ready()))
    await eventually('all four', () => gateways.every(({ proxy }) => proxy.status().upstreams.length === 4))

    const statuses: number[] = []
    const answers = async () => {
      const answered = new Map<string, string>()
      for (let user = 0; user < 100; user += 1) {
        const url = gateways[user % 2]?.url ?? ''
        const answer = await fetch(url, { headers: { 'x-user-id': `user-${user}` } })
        statuses.push(answer.status)
        answered.set(`user-${user}`, await answer.text())
      }
      return answered
    }
    const stop = new AbortController()
    const background = (async () => {
      while (!stop.signal.aborted) await answers()
    })()

    const latencies: number[] = []
    const change = async (write: () => Promise<unknown>, count: number) => {
      const live = gateways.map(
        ({ proxy }) =>
          new Promise<void>((resolve) => {
            const listener = () => {
              if (proxy.status().upstreams.length !== count) return
              proxy.off('topology', listener)
              resolve()
            }
            proxy.on('topology', listener)
          }),
      )
      const started = performance.now()
      await write()
      await Promise.all(live)
      latencies.push(performance.now() - started)
    }
    const before = await answers()
    for (let round = 0; round < 10; round += 1) {
      await change(() => etcd.delete(`${prefix}upstreams/d`), 3)
      await sleep(5)
      await change(() => put('d'), 4)
    }
    await change(() => etcd.delete(`${prefix}upstreams/d`), 3)
    const after = await answers()
    stop.abort()
    await background

    for (const [user, owner] of before) {
      if (owner === 'd') expect(after.get(user)).not.toBe('d')
      else expect(after.get(user)).toBe(owner)
    }
    expect(new Set(statuses)).toEqual(new Set([200]))
    const median = latencies.sort((a, b) => a - b)[Math.floor(latencies.length / 2)] ?? Number.NaN
    console.log(`put or delete → live in both: median ${median.toFixed(1)} ms of ${latencies.length} changes`)
    expect(median).toBeLessThan(100)
  })
})
