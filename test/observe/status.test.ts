import { expect, test } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { HashRing, type ProxyStatus, type Upstream } from '../../src/index.ts'
import { ScriptedTopology } from '../support/scripted-topology.ts'
import { answerId, eventually, keyOwnedBy, startGateway, startUpstream } from '../support/servers.ts'

const idle = { inFlight: 0, longLived: 0, breaker: 'closed', healthy: true }

async function statusOf(upstreams: readonly Partial<Upstream>[]): Promise<ProxyStatus> {
  const { proxy, close } = await startGateway({ key: 'ip', topology: new ScriptedTopology(upstreams) })
  await proxy.ready()
  const status = proxy.status()
  await close()
  return status
}

test('before the first topology nothing is known, and after closing the source is closed', async () => {
  const topology = new ScriptedTopology()
  const { proxy, close } = await startGateway({ key: 'ip', topology, ring: { virtualNodes: 200 } })
  const unknown = {
    ...{ revision: null, epoch: 0, topologyAgeMs: null, degraded: false, panic: false, inFlight: 0 },
    ring: { digest: null, virtualNodes: 200, heaviestOverMean: null },
    ...{ held: [], digestMismatch: [], upstreams: [] },
  }
  expect(proxy.status()).toEqual({ ...unknown, source: { state: 'connecting' } })
  await eventually('the source to be open', () => topology.opens === 1)
  topology.say({ state: 'connecting', error: 'refused' })
  expect(proxy.status().source).toEqual({ state: 'connecting', error: 'refused' })
  await close()
  expect(proxy.status()).toEqual({ ...unknown, source: { state: 'closed' } })
})

test('its shape, upstreams by id, through JSON and back', async () => {
  const metadata = { rack: 7, tags: ['a'] }
  const clock = { ...systemClock, now: () => 0 }
  const topology = new ScriptedTopology([
    { id: 'b', url: 'http://10.0.0.2:80/base', weight: 3, state: 'draining' },
    { id: 'a', url: 'http://10.0.0.1', zone: 'z1', metadata },
  ])
  const { proxy } = await startGateway({ key: 'ip', topology, clock })
  await proxy.ready()
  const status = proxy.status()
  expect(status).toEqual({
    ...{ revision: '1', epoch: 0, topologyAgeMs: 0, degraded: false, panic: false, inFlight: 0 },
    ...{ held: [], digestMismatch: [], source: { state: 'live' } },
    ring: { digest: new HashRing(['a']).digest, virtualNodes: 160, heaviestOverMean: 1 },
    upstreams: [
      {
        ...{ id: 'a', url: 'http://10.0.0.1', weight: 1, state: 'active', zone: 'z1', metadata },
        ...{ ...idle, capacity: 8, eligible: true, share: 1 },
      },
      {
        ...{ id: 'b', url: 'http://10.0.0.2:80/base', weight: 3, state: 'draining' },
        ...{ ...idle, capacity: null, eligible: false, share: 0 },
      },
    ],
  })
  expect(JSON.parse(JSON.stringify(status))).toEqual(status)
})

test('revisions of 64 bits keep every digit', async () => {
  const topology = new ScriptedTopology([{ id: 'a' }])
  topology.set(2n ** 63n - 1n, [{ id: 'a' }])
  const { proxy } = await startGateway({ key: 'ip', topology })
  await proxy.ready()
  expect(JSON.parse(JSON.stringify(proxy.status())).revision).toBe('9223372036854775807')
})

test('the digest is a function of the placement alone', async () => {
  const [a, b] = [{ id: 'a' }, { id: 'b' }]
  const { digest } = (await statusOf([a, b])).ring
  const digestOf = async (...upstreams: Partial<Upstream>[]) => (await statusOf(upstreams)).ring.digest
  expect(await digestOf(b, a)).toBe(digest)
  expect(await digestOf({ ...a, url: 'https://elsewhere/x', zone: 'z', metadata: { x: 1 } }, b)).toBe(digest)
  expect(await digestOf(a, b, { id: 'c', state: 'draining' }, { id: 'd', state: 'warming' })).toBe(digest)
  expect(await digestOf({ ...a, weight: 2 }, b)).not.toBe(digest)
  expect(await digestOf({ ...a, state: 'draining' }, b)).not.toBe(digest)
  expect(await digestOf(a, { id: 'c' })).not.toBe(digest)
})

test('the shares of any weights sum to 1', async () => {
  const weights = [0.01, 1, 2.5, 100, 1]
  const { upstreams, ring } = await statusOf(weights.map((weight, index) => ({ id: `u${index}`, weight })))
  expect(upstreams.reduce((sum, { share }) => sum + share, 0)).toBeCloseTo(1, 12)
  expect(ring.heaviestOverMean).toBe(Math.max(...upstreams.map(({ share }) => share)) * weights.length)
})

test('reading it changes nothing: an open breaker whose time has passed is probed by a request, not by a look', async () => {
  let skipped = 0
  const clock = { ...systemClock, now: () => systemClock.now() + skipped }
  const upstream = await startUpstream('u1', answerId)
  const topology = new ScriptedTopology([{ id: 'u1', url: upstream.url }, { id: 'u2' }])
  const circuitBreaker = { consecutiveFailures: 1, jitter: 0 }
  const { proxy, url } = await startGateway({ key: 'header:x-user-id', topology, circuitBreaker, clock })
  await proxy.ready()
  const seen: string[] = []
  for (const event of ['ejection', 'recovery', 'topology', 'request'] as const)
    proxy.on(event, () => seen.push(event))
  const breaker = () => proxy.status().upstreams.map(({ breaker }) => breaker)
  const headers = { 'x-user-id': keyOwnedBy(new HashRing(['u1', 'u2']), 'u2') }
  expect(await (await fetch(url, { headers })).text()).toBe('u1')
  await eventually('the request to be counted', () => seen.includes('request'))
  expect(seen).toEqual(['ejection', 'request'])
  expect(breaker()).toEqual(['closed', 'open'])
  skipped = 5_000
  const looks = Array.from({ length: 100 }, () => breaker().join())
  expect(new Set(looks)).toEqual(new Set(['closed,half-open']))
  expect(seen).toEqual(['ejection', 'request'])
  // The one probe has not been used up by looking: this request is it.
  expect((await fetch(url, { headers })).status).toBe(200)
  expect(breaker()).toEqual(['closed', 'open'])
})

test('it is a copy: changing it changes nothing', async () => {
  const { proxy } = await startGateway({ key: 'ip', topology: new ScriptedTopology([{ id: 'a' }]) })
  await proxy.ready()
  const before = JSON.stringify({ ...proxy.status(), topologyAgeMs: 0 })
  const status = proxy.status()
  Reflect.set(status.upstreams[0] ?? {}, 'inFlight', 9)
  Reflect.set(status.ring, 'digest', 'x')
  Reflect.set(status.source, 'state', 'lost')
  expect(JSON.stringify({ ...proxy.status(), topologyAgeMs: 0 })).toBe(before)
})
