import { describe, expect, it } from 'vitest'
import { type ConsistentHashProxyOptions, HashRing, staticTopology } from '../../src/index.ts'
import { metricOf } from '../support/metrics.ts'
import { call, startGatewayTo } from '../support/raw-http.ts'
import {
  answerId,
  eventually,
  type Handler,
  keyOwnedBy,
  receive,
  startGateway,
  startUpstreams,
  type TestGateway,
  type TestUpstream,
} from '../support/servers.ts'

const ids = ['U1', 'U2', 'U3']
const ring = new HashRing(ids)
const users = Array.from({ length: 60 }, (_, index) => `user-${index}`)

/** The upstream of each attempt of each request, by the value of its `x-request`. A replay is no attempt of its own. */
function trackAttempts() {
  const attempts = new Map<string, string[]>()
  const onRequest: ConsistentHashProxyOptions['onRequest'] = ({ request, upstream, attempt }) => {
    const name = String(request.headers['x-request'])
    const tried = attempts.get(name) ?? []
    tried[attempt - 1] = upstream.id
    attempts.set(name, tried)
  }
  return { attempts, onRequest }
}

let requests = 0
async function get(gateway: TestGateway, user: string) {
  requests += 1
  const answer = await call(gateway, { headers: { 'x-user-id': user, 'x-request': String(requests) } })
  return { status: answer.status, id: answer.body.toString(), headers: answer.headers }
}

const breakerOf = ({ proxy }: TestGateway, id: string) =>
  proxy.status().upstreams.find((upstream) => upstream.id === id)?.breaker

const quick = { circuitBreaker: { openMs: 200, maxOpenMs: 400, jitter: 0 } }

describe('an upstream whose port is closed', () => {
  it('under steady traffic: all 200, one attempt at most to it each, its breaker opens, probes bring it back', async () => {
    const upstreams = await startUpstreams(ids)
    const [, u2] = upstreams
    const { attempts, onRequest } = trackAttempts()
    const gateway = await startGatewayTo(upstreams, { ...quick, onRequest })
    let steady = true
    const statuses: (number | undefined)[] = []
    const worker = async (first: number) => {
      for (let turn = first; steady; turn += 4) {
        const { status } = await get(gateway, users[turn % users.length] ?? '')
        statuses.push(status)
      }
    }
    const workers = [0, 1, 2, 3].map(worker)
    await eventually('traffic', () => (u2?.count ?? 0) > 20)
    await u2?.stop()
    await eventually('the breaker to open', () => breakerOf(gateway, 'U2') === 'open')
    const closedFor = statuses.length
    await eventually('traffic meanwhile', () => statuses.length > closedFor + 300)
    await u2?.restart()
    const before = u2?.count ?? 0
    await eventually('U2 to serve again', () => (u2?.count ?? 0) > before + 20)
    steady = false
    await Promise.all(workers)
    expect(new Set(statuses)).toEqual(new Set([200]))
    for (const tried of attempts.values()) expect(new Set(tried).size).toBe(tried.length)
    expect(breakerOf(gateway, 'U2')).toBe('closed')
    expect(
      await metricOf(gateway.proxy, 'ejections_total', { upstream: 'U2', cause: 'connect' }),
    ).toBeGreaterThan(0)
    expect(await metricOf(gateway.proxy, 'recoveries_total', { upstream: 'U2' })).toBeGreaterThan(0)
    expect(gateway.proxy.status().inFlight).toBe(0)
  })

  it('envoyproxy/envoy#2259, #27317, kubernetes/ingress-nginx#4035, apache/apisix#2770: one, then two of three closed', async () => {
    const upstreams = await startUpstreams(ids)
    const { attempts, onRequest } = trackAttempts()
    const gateway = await startGatewayTo(upstreams, { onRequest, circuitBreaker: { openMs: 60_000 } })
    const owned = Array.from({ length: 100 }, (_, index) => keyOwnedBy(ring, 'U2', `${index}-`))
    const all = async () => {
      attempts.clear()
      for (const key of owned) {
        const request = String(requests + 1)
        expect((await get(gateway, key)).status).toBe(200)
        const order = ring.owners(key, 3)
        const tried = attempts.get(request) ?? []
        expect(tried).toEqual(order.filter((id) => tried.includes(id)))
      }
      return [...attempts.values()]
    }
    await upstreams[1]?.stop()
    const first = await all()
    expect(first.slice(0, 5).every(([id, ...others]) => id === 'U2' && others.length === 1)).toBe(true)
    expect(first.slice(5).every((tried) => tried.length === 1 && tried[0] !== 'U2')).toBe(true)
    await upstreams[0]?.stop()
    for (const tried of await all()) expect(tried.at(-1)).toBe('U3')
    expect(upstreams[2]?.count).toBeGreaterThanOrEqual(100)
    expect(await metricOf(gateway.proxy, 'retries_total', { reason: 'connect' })).toBe(10)
    expect(gateway.proxy.status().panic).toBe(false)
  })

  it('envoyproxy/envoy#27317: also when the closed one has a hundred times the weight', async () => {
    const upstreams = await startUpstreams(ids)
    const topology = staticTopology(
      upstreams.map(({ id, url }) => ({ id, url, weight: id === 'U2' ? 100 : 1 })),
    )
    const gateway = await startGateway({ key: 'header:x-user-id', topology })
    await upstreams[1]?.stop()
    for (const user of users) expect((await get(gateway, user)).status).toBe(200)
    expect(upstreams.map(({ count }) => count > 0)).toEqual([true, false, true])
  })

  it('all closed: 503 with Retry-After, and 200 as soon as one is back', async () => {
    const upstreams = await startUpstreams(ids)
    const gateway = await startGatewayTo(upstreams, quick)
    for (const upstream of upstreams) await upstream.stop()
    for (const user of users.slice(0, 20)) {
      const { status, headers } = await get(gateway, user)
      expect(status).toBe(503)
      expect(Number(headers['retry-after'])).toBeGreaterThanOrEqual(1)
    }
    expect(await metricOf(gateway.proxy, 'eligible')).toBe(0)
    await upstreams[0]?.restart()
    await eventually('a 200', async () => (await get(gateway, 'user')).status === 200)
  })
})

describe('circuit breaker', () => {
  it('envoyproxy/envoy#38815: of two one is down: its keys on the other, no panic, back only after a good probe', async () => {
    let works = true
    const upstreams = await startUpstreams(['U1', 'U2'], (request, response, upstream) => {
      if (upstream.id === 'U1' && !works) response.writeHead(503)
      answerId(request, response, upstream)
    })
    const gateway = await startGatewayTo(upstreams, quick)
    const two = new HashRing(['U1', 'U2'])
    const keys = Array.from({ length: 10 }, (_, index) => keyOwnedBy(two, 'U1', `${index}-`))
    works = false
    for (const key of keys.slice(0, 5))
      expect(await get(gateway, key)).toMatchObject({ status: 503, id: 'U1' })
    expect(breakerOf(gateway, 'U1')).toBe('open')
    for (const key of keys) expect(await get(gateway, key)).toMatchObject({ status: 200, id: 'U2' })
    expect(gateway.proxy.status().panic).toBe(false)
    expect(await metricOf(gateway.proxy, 'panic')).toBe(0)
    await eventually('a probe', async () => (await get(gateway, keys[0] ?? '')).id === 'U1')
    expect(breakerOf(gateway, 'U1')).toBe('open') // the probe was answered 503
    expect(await get(gateway, keys[0] ?? '')).toMatchObject({ status: 200, id: 'U2' })
    works = true
    await eventually('a good probe', async () => (await get(gateway, keys[0] ?? '')).id === 'U1')
    for (const key of keys) expect(await get(gateway, key)).toMatchObject({ status: 200, id: 'U1' })
  })

  it('nodeshift/opossum#119, #385, #819: one probe reaches a hanging upstream, 49 go on; late results change nothing', async () => {
    let mode: 'hang' | 'work' = 'hang'
    const held: (() => void)[] = []
    const handle: Handler = (request, response, upstream) => {
      if (upstream.id === 'U1' && mode === 'hang') {
        void receive(request, upstream)
        held.push(() => response.end('late'))
      } else answerId(request, response, upstream)
    }
    const upstreams = await startUpstreams(ids, handle)
    const [u1] = upstreams
    const gateway = await startGatewayTo(upstreams, {
      ...{ boundedLoad: false, timeouts: { firstByteMs: 300 }, retry: { attempts: 0 } },
      circuitBreaker: { openMs: 200, jitter: 0 },
    })
    const key = keyOwnedBy(ring, 'U1')
    const fifty = () => Promise.all(Array.from({ length: 50 }, () => get(gateway, key)))
    expect((await fifty()).every(({ status }) => status === 504)).toBe(true)
    expect(await metricOf(gateway.proxy, 'ejections_total')).toBe(1)
    expect(u1?.count).toBe(50)
    await eventually('half-open', () => breakerOf(gateway, 'U1') === 'half-open')
    const probed = await fifty()
    expect(probed.filter(({ status }) => status === 504)).toHaveLength(1)
    expect(probed.filter(({ status, id }) => status === 200 && id === ring.owners(key, 2)[1])).toHaveLength(
      49,
    )
    expect(u1?.count).toBe(51)
    expect(breakerOf(gateway, 'U1')).toBe('open')
    mode = 'work'
    await eventually('it to close', async () => (await get(gateway, key)).id === 'U1')
    expect(breakerOf(gateway, 'U1')).toBe('closed')
    for (const answer of held) answer()
    expect((await fifty()).every(({ id }) => id === 'U1')).toBe(true)
  })

  it('a half-open probe whose client leaves gives its permit back', async () => {
    let hangs = false
    const upstreams = await startUpstreams(['U1', 'U2'], (request, response, upstream) => {
      if (upstream.id === 'U1' && hangs) void receive(request, upstream)
      else answerId(request, response, upstream)
    })
    const [u1] = upstreams
    const gateway = await startGatewayTo(upstreams, quick)
    const key = keyOwnedBy(new HashRing(['U1', 'U2']), 'U1')
    await u1?.stop()
    for (let attempt = 0; attempt < 5; attempt += 1) await get(gateway, key)
    await u1?.restart()
    hangs = true
    await eventually('half-open', () => breakerOf(gateway, 'U1') === 'half-open')
    for (let round = 1; round <= 3; round += 1) {
      const controller = new AbortController()
      const left = fetch(gateway.url, { headers: { 'x-user-id': key }, signal: controller.signal }).catch(
        () => 'left',
      )
      await eventually('the probe', () => u1?.count === round)
      controller.abort()
      expect(await left).toBe('left')
      await eventually('it to be forgotten', () => gateway.proxy.status().inFlight === 0)
    }
    expect(breakerOf(gateway, 'U1')).toBe('half-open')
    hangs = false
    expect((await get(gateway, key)).id).toBe('U1')
    expect(breakerOf(gateway, 'U1')).toBe('closed')
  })

  it('istio/istio#41674: what one gateway ejected goes where every gateway would send it; nothing else moves', async () => {
    const upstreams = await startUpstreams(ids, answerId)
    const sick = await startGatewayTo(upstreams, { circuitBreaker: { openMs: 60_000 } })
    const well = await startGatewayTo(upstreams)
    const key = keyOwnedBy(ring, 'U2')
    await upstreams[1]?.stop()
    for (let attempt = 0; attempt < 5; attempt += 1) await get(sick, key)
    await upstreams[1]?.restart()
    expect(breakerOf(sick, 'U2')).toBe('open')
    for (const user of users) {
      const [owner, second] = ring.owners(user, 2)
      expect((await get(well, user)).id).toBe(owner)
      expect((await get(sick, user)).id).toBe(owner === 'U2' ? second : owner)
    }
    expect(sick.proxy.status().ring.digest).toBe(well.proxy.status().ring.digest)
  })

  it('one poisonous key, answered 503 everywhere, ejects nobody', async () => {
    const upstreams: TestUpstream[] = await startUpstreams(ids, (request, response, upstream) => {
      if (request.headers['x-user-id'] === 'poison') response.writeHead(503)
      answerId(request, response, upstream)
    })
    const gateway = await startGatewayTo(upstreams)
    for (let attempt = 0; attempt < 50; attempt += 1) expect((await get(gateway, 'poison')).status).toBe(503)
    expect(ids.map((id) => breakerOf(gateway, id))).toEqual(['closed', 'closed', 'closed'])
    expect(await metricOf(gateway.proxy, 'ejections_total')).toBeUndefined()
  })
})
