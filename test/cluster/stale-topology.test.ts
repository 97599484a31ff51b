import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import express from 'express'
import { describe, expect, it, onTestFinished } from 'vitest'
import { HashRing, ownershipGuard, type Topology, type TopologySource } from '../../src/index.ts'
import { etcdTopology } from '../../src/topology/etcd/etcd-topology.ts'
import { startTestEtcd } from '../support/cluster.ts'
import type { EtcdProcess } from '../support/etcd.ts'
import { LateTopology } from '../support/late-topology.ts'
import { answerId, eventually, keyOwnedBy, receive, startGateway, startUpstream } from '../support/servers.ts'

const prefix = '/consistent-hash-proxy/test/'

interface Guarded {
  readonly id: string
  readonly url: string
  readonly bodies: string[]
  readonly refused: () => number
  /** Resolves once its guard knows so many upstreams. */
  readonly knows: (count: number) => Promise<void>
}

/** An upstream with the guard before it: answers its id, and keeps the bodies that it was sent. */
async function startGuarded(etcd: EtcdProcess, id: string): Promise<Guarded> {
  let known = 0
  const source = etcdTopology({ hosts: etcd.endpoint, prefix })
  const topology: TopologySource = {
    kind: source.kind,
    open(observer, context) {
      const onTopology = (next: Topology) => {
        observer.onTopology(next)
        known = next.upstreams.length
      }
      return source.open({ ...observer, onTopology }, context)
    },
  }
  const guard = ownershipGuard({ id, topology })
  const bodies: string[] = []
  let refused = 0
  const app = express()
  app.use((_request, response, next) => {
    response.once('finish', () => {
      if (response.statusCode === 421) refused += 1
    })
    next()
  })
  app.use(guard)
  app.use(express.text({ type: '*/*', limit: '10mb' }))
  app.use((request, response) => {
    bodies.push(typeof request.body === 'string' ? request.body : '')
    response.send(id)
  })
  const server = createServer(app)
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  onTestFinished(async () => {
    server.closeAllConnections()
    server.close()
    await guard.close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  await etcd.put(`${prefix}upstreams/${id}`, { url })
  const knows = (count: number) => eventually(`${id} to know ${count}`, () => known === count)
  return { id, url, bodies, refused: () => refused, knows }
}

/** A gateway that knows three upstreams. No load bound: a joining upstream ramps up, and 30 requests would overflow. */
async function startStale(source: LateTopology) {
  const gateway = await startGateway({ key: 'header:x-user-id', topology: source, boundedLoad: false })
  await gateway.proxy.ready()
  await eventually('three upstreams', () => gateway.proxy.status().upstreams.length === 3)
  return gateway
}

const keysOf = (owner: string, count: number) => {
  const ring = new HashRing(['a', 'b', 'c', 'd'])
  return Array.from({ length: count }, (_, index) => keyOwnedBy(ring, owner, `user-${index}-`))
}

const post = (url: string, key: string, body: string) =>
  fetch(url, { method: 'POST', body, headers: { 'x-user-id': key } })

async function metric(
  gateway: { proxy: { metrics?: { getSingleMetric(name: string): unknown } | undefined } },
  name: string,
) {
  const found = gateway.proxy.metrics?.getSingleMetric(`consistent_hash_proxy_${name}`)
  const { values } = await (
    found as { get(): Promise<{ values: { labels: object; value: number }[] }> }
  ).get()
  return values
}

describe('a gateway with a stale topology', () => {
  it('re-reads etcd once for many waiting requests, and every POST lands on the new owner whole', async () => {
    const etcd = await startTestEtcd()
    const guarded = await Promise.all(['a', 'b', 'c'].map((id) => startGuarded(etcd, id)))
    const source = new LateTopology(etcdTopology({ hosts: etcd.endpoint, prefix }))
    const gateway = await startStale(source)
    source.hold()
    const joined = await startGuarded(etcd, 'd')
    const keys = keysOf('d', 30)
    await Promise.all(guarded.map(({ knows }) => knows(4)))

    const body = 'x'.repeat(20_000)
    const answers = await Promise.all(keys.map((key) => post(gateway.url, key, key + body)))
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
    expect(new Set(await Promise.all(answers.map((answer) => answer.text())))).toEqual(new Set(['d']))
    expect(joined.bodies.sort()).toEqual(keys.map((key) => key + body).sort())
    expect(source.reads).toBe(1)
    expect(await metric(gateway, 'stale_topology_signs_total')).toContainEqual(
      expect.objectContaining({ labels: { sign: 'misdirected', confirmed: 'true' } }),
    )
  })

  it('believes an upstream that answers 421 for ever at most once in 30 s', async () => {
    const etcd = await startTestEtcd()
    const wolf = await startUpstream('a', (request, response, upstream) => {
      void receive(request, upstream).then(() => response.writeHead(421).end())
    })
    const others = await Promise.all(['b', 'c'].map((id) => startUpstream(id, answerId)))
    for (const { id, url } of [wolf, ...others]) await etcd.put(`${prefix}upstreams/${id}`, { url })
    const source = new LateTopology(etcdTopology({ hosts: etcd.endpoint, prefix }))
    const gateway = await startStale(source)
    const key = keyOwnedBy(new HashRing(['a', 'b', 'c']), 'a')
    const started = Date.now()
    while (Date.now() - started < 2_500) {
      const answers = await Promise.all(Array.from({ length: 5 }, () => post(gateway.url, key, 'body')))
      for (const answer of answers) {
        expect(answer.status).toBe(200)
        expect(['b', 'c']).toContain(await answer.text())
      }
    }
    expect(wolf.count).toBeGreaterThan(10)
    expect(source.reads).toBe(1)
  })

  it('learns from a good answer in the background, and passes that answer on at once', async () => {
    const etcd = await startTestEtcd()
    const guarded = await Promise.all(['a', 'b', 'c'].map((id) => startGuarded(etcd, id)))
    const source = new LateTopology(etcdTopology({ hosts: etcd.endpoint, prefix }))
    const gateway = await startStale(source)
    source.hold()
    await startGuarded(etcd, 'd')
    await Promise.all(guarded.map(({ knows }) => knows(4)))
    const [stays = ''] = keysOf('a', 1)
    const answer = await post(gateway.url, stays, '')
    expect([answer.status, await answer.text()]).toEqual([200, 'a'])
    await eventually('the fourth upstream', () => gateway.proxy.status().upstreams.length === 4)
    expect(source.reads).toBe(1)
  })
})

describe('ownershipGuard behind a gateway', () => {
  it('serves what overflowed and what was retried, and what comes without headers', async () => {
    const etcd = await startTestEtcd()
    const guarded = await Promise.all(['a', 'b', 'c'].map((id) => startGuarded(etcd, id)))
    const gateway = await startGateway({
      key: 'header:x-user-id',
      topology: etcdTopology({ hosts: etcd.endpoint, prefix }),
      boundedLoad: { floor: 0 },
    })
    await gateway.proxy.ready()
    await eventually('three upstreams', () => gateway.proxy.status().upstreams.length === 3)
    await Promise.all(guarded.map(({ knows }) => knows(3)))
    const answers = await Promise.all(
      Array.from({ length: 40 }, () => post(gateway.url, 'one-key', 'x'.repeat(1_000))),
    )
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
    expect(new Set(await Promise.all(answers.map((answer) => answer.text()))).size).toBeGreaterThan(1)
    for (const { url, id } of guarded) expect(await (await fetch(url)).text()).toBe(id)

    // A dead owner whose registration stays: its keys are retried at the next owner.
    await etcd.put(`${prefix}upstreams/dead`, { url: 'http://127.0.0.1:1' })
    await eventually('four upstreams', () => gateway.proxy.status().upstreams.length === 4)
    const ring = new HashRing(['a', 'b', 'c', 'dead'])
    for (let index = 0; index < 10; index += 1) {
      const answer = await post(gateway.url, keyOwnedBy(ring, 'dead', `lost-${index}-`), '')
      expect(answer.status).toBe(200)
    }
    expect(guarded.map(({ refused }) => refused())).toEqual([0, 0, 0])
  })

  it('serves while it is the one behind, and catches up', async () => {
    const etcd = await startTestEtcd()
    const [first] = await Promise.all(['a', 'b', 'c'].map((id) => startGuarded(etcd, id)))
    await first?.knows(3)
    const gateway = await startGateway({
      key: 'header:x-user-id',
      topology: etcdTopology({ hosts: etcd.endpoint, prefix }),
    })
    await gateway.proxy.ready()
    // Each put moves the gateway and the guards on their own watches; whoever is behind at a request serves it.
    for (let round = 0; round < 10; round += 1) {
      await etcd.put(`${prefix}upstreams/extra`, {
        url: 'http://127.0.0.1:1',
        weight: 1 + round / 10,
        state: 'active',
      })
      const answers = await Promise.all(
        Array.from({ length: 10 }, (_, user) => post(gateway.url, `user-${round}-${user}`, 'x')),
      )
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
    }
  })
})
