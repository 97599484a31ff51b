import { describe, expect, it } from 'vitest'
import { type ConsistentHashProxyOptions, HashRing } from '../../src/index.ts'
import { metricOf } from '../support/metrics.ts'
import { call, startGatewayTo } from '../support/raw-http.ts'
import { ScriptedTopology } from '../support/scripted-topology.ts'
import {
  answerAfter,
  answerId,
  eventually,
  keyOwnedBy,
  receive,
  startGateway,
  startUpstream,
  startUpstreams,
  type TestGateway,
} from '../support/servers.ts'

const ids = ['U1', 'U2', 'U3']
const ring = new HashRing(ids)
const textbook = { boundedLoad: { factor: 1.25, floor: 0 } }

/** `count` requests of one key at once: their statuses and who answered. */
async function burst(gateway: TestGateway, key: string, count: number) {
  const headers = { 'x-user-id': key }
  const answers = await Promise.all(Array.from({ length: count }, () => call(gateway, { headers })))
  return answers.map(({ status, body }) => ({ status, id: body.toString() }))
}

describe('bounded load', () => {
  it('envoyproxy/envoy#12529, #2377: 30 of one key at once leave at most 13 on each, in the same order each run', async () => {
    const key = keyOwnedBy(ring, 'U2')
    const runs = []
    for (let run = 0; run < 2; run += 1) {
      const upstreams = await startUpstreams(ids, answerAfter(200))
      const gateway = await startGatewayTo(upstreams, textbook)
      const answers = await burst(gateway, key, 30)
      expect(answers.every(({ status }) => status === 200)).toBe(true)
      expect(Math.max(...upstreams.map(({ peak }) => peak))).toBeLessThanOrEqual(13)
      expect(await metricOf(gateway.proxy, 'overflow_total')).toBe(
        answers.filter(({ id }) => id !== 'U2').length,
      )
      expect(gateway.proxy.status().inFlight).toBe(0)
      runs.push(Object.fromEntries(upstreams.map(({ id, count }) => [id, count])))
    }
    const [second = '', third = ''] = ring.owners(key, 3).slice(1)
    expect(runs[0]).toEqual({ U2: 13, [second]: 13, [third]: 4 })
    expect(runs[1]).toEqual(runs[0])
  })

  it('a floor of 8 keeps 5 concurrent requests of one key on their owner', async () => {
    const upstreams = await startUpstreams(ids, answerAfter(100))
    const gateway = await startGatewayTo(upstreams, { boundedLoad: { floor: 8 } })
    const answers = await burst(gateway, keyOwnedBy(ring, 'U3'), 5)
    expect(answers).toEqual(Array.from({ length: 5 }, () => ({ status: 200, id: 'U3' })))
  })

  it.each<[string, Partial<ConsistentHashProxyOptions>]>([
    ['next', textbook],
    ['reject', { boundedLoad: { factor: 1, floor: 0, overflow: 'reject' } }],
  ])('envoyproxy/envoy#12529: a single upstream refuses nothing (overflow %s)', async (_, options) => {
    const [upstream] = await startUpstreams(['U1'], answerAfter(400))
    const gateway = await startGatewayTo(upstream ? [upstream] : [], options)
    const answers = await burst(gateway, 'any', 40)
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
    expect(upstream?.peak).toBe(40)
  })

  it('overflow reject: what its owner has no room for is answered 503, and nobody else gets it', async () => {
    const upstreams = await startUpstreams(ids, answerAfter(200))
    const gateway = await startGatewayTo(upstreams, {
      boundedLoad: { factor: 1, floor: 2, overflow: 'reject' },
    })
    const headers = { 'x-user-id': keyOwnedBy(ring, 'U1'), accept: 'application/json' }
    const answers = await Promise.all(Array.from({ length: 6 }, () => call(gateway, { headers })))
    const refused = answers.filter(({ status }) => status === 503)
    expect(refused).toHaveLength(4)
    expect(refused[0]?.headers['retry-after']).toBe('1')
    expect(JSON.parse(String(refused[0]?.body))).toMatchObject({ error: { code: 'OVERLOADED' } })
    expect(upstreams.map(({ count }) => count)).toEqual([2, 0, 0])
  })

  it('limits.inFlight: what is beyond is answered 503 at once, and its place is free again afterwards', async () => {
    const upstreams = await startUpstreams(ids, answerAfter(150))
    const gateway = await startGatewayTo(upstreams, { boundedLoad: false, limits: { inFlight: 3 } })
    const answers = await burst(gateway, keyOwnedBy(ring, 'U1'), 8)
    expect(answers.filter(({ status }) => status === 503)).toHaveLength(5)
    expect(answers.filter(({ id }) => id === 'U1')).toHaveLength(3)
    expect((await burst(gateway, 'again', 3)).every(({ status }) => status === 200)).toBe(true)
  })
})

describe('upstreams that leave', () => {
  it('apache/dubbo#4103, apache/brpc#3502: one leaves with 5 in flight, clients leave, upstreams reset: exactly 0', async () => {
    const waiting: (() => void)[] = []
    const [u1, u2, u3] = await startUpstreams(ids, (request, response, upstream) => {
      if (request.url === '/reset') request.socket.destroy()
      else void receive(request, upstream).then(() => waiting.push(() => response.end(upstream.id)))
    })
    const all = [u1, u2, u3].map((upstream) => ({ id: upstream?.id ?? '', url: upstream?.url ?? '' }))
    const topology = new ScriptedTopology(all)
    const gateway = await startGateway({ key: 'header:x-user-id', topology, retry: { attempts: 0 } })
    const inFlight = () => gateway.proxy.status().inFlight
    const headers = { 'x-user-id': keyOwnedBy(ring, 'U1') }
    const served = burst(gateway, headers['x-user-id'], 5)
    const leaving = Array.from({ length: 3 }, () => new AbortController())
    const left = leaving.map(({ signal }) => fetch(gateway.url, { headers, signal }).catch(() => 'left'))
    await eventually('8 requests at U1', () => u1?.count === 8)
    expect(inFlight()).toBe(8)
    topology.set(2n, all.slice(1))
    expect(gateway.proxy.status().upstreams.map(({ id }) => id)).toEqual(['U2', 'U3'])
    expect(inFlight()).toBe(8) // it left the ring, its requests did not end
    for (const controller of leaving) controller.abort()
    expect(await Promise.all(left)).toEqual(['left', 'left', 'left'])
    await eventually('the clients that left to be forgotten', () => inFlight() === 5)
    for (const answer of waiting) answer()
    expect(await served).toEqual(Array.from({ length: 5 }, () => ({ status: 200, id: 'U1' })))
    expect(inFlight()).toBe(0)
    const resets = await Promise.all(
      Array.from({ length: 5 }, () => call(gateway, { path: '/reset', headers: { 'x-user-id': 'r' } })),
    )
    expect(resets.map(({ status }) => status)).toEqual([502, 502, 502, 502, 502])
    expect(inFlight()).toBe(0)
    expect(await metricOf(gateway.proxy, 'in_flight')).toBe(0)
  })

  it('traefik/traefik#1299: a key whose upstream is gone is answered 200 by its new owner, always', async () => {
    const upstreams = await Promise.all(ids.map((id) => startUpstream(id, answerId)))
    const all = upstreams.map(({ id, url }) => ({ id, url }))
    const topology = new ScriptedTopology(all)
    const gateway = await startGateway({ key: 'header:x-user-id', topology })
    const key = keyOwnedBy(ring, 'U2')
    const next = ring.owners(key, 2)[1]
    expect(await burst(gateway, key, 1)).toEqual([{ status: 200, id: 'U2' }])
    await upstreams[1]?.stop()
    expect(await burst(gateway, key, 20)).toEqual(
      Array.from({ length: 20 }, () => ({ status: 200, id: next })),
    )
    topology.set(2n, [...all.slice(0, 1), ...all.slice(2)])
    const sent = await metricOf(gateway.proxy, 'retries_total', { reason: 'connect' })
    expect(sent).toBeGreaterThan(0)
    expect(await burst(gateway, key, 20)).toEqual(
      Array.from({ length: 20 }, () => ({ status: 200, id: next })),
    )
    expect(await metricOf(gateway.proxy, 'retries_total', { reason: 'connect' })).toBe(sent)
  })
})
