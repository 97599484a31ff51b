import { expect, test } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { type ConsistentHashProxyOptions, HashRing, RefusedEntryError } from '../../src/index.ts'
import { metricOf, seriesOf } from '../support/metrics.ts'
import { ScriptedTopology } from '../support/scripted-topology.ts'
import { eventually, type Handler, keyOwnedBy, startGateway, startUpstreams } from '../support/servers.ts'

const three = ['u1', 'u2', 'u3'].map((id) => ({ id }))

async function gatewayOf(topology: ScriptedTopology, options: Partial<ConsistentHashProxyOptions> = {}) {
  const gateway = await startGateway({ key: 'header:x-user-id', topology, ...options })
  return { ...gateway, metric: (name: string, labels = {}) => metricOf(gateway.proxy, name, labels) }
}

test('revision, epoch, age, changes and the time to build the ring', async () => {
  let now = 0
  const clock = { ...systemClock, now: () => now }
  const topology = new ScriptedTopology()
  const { proxy, metric } = await gatewayOf(topology, { clock })
  for (const name of ['topology_revision', 'topology_age_seconds', 'heaviest_over_mean']) {
    expect(await metric(name)).toBeUndefined()
  }
  expect(await metric('topology_changes_total')).toBe(0)
  await eventually('the source to be open', () => topology.opens === 1)
  topology.set(40n, three)
  await proxy.ready()
  now = 90_000
  expect(await metric('topology_revision')).toBe(40)
  expect(await metric('topology_epoch')).toBe(0)
  expect(await metric('topology_age_seconds')).toBe(90)
  topology.set(2n, three, { epoch: 1 })
  expect(await metric('topology_revision')).toBe(2)
  expect(await metric('topology_epoch')).toBe(1)
  expect(await metric('topology_age_seconds')).toBe(0)
  expect(await metric('topology_changes_total')).toBe(2)
  expect(await metric('ring_build_seconds_count')).toBe(2)
})

test('whether the source can be read, whether anything is refused, and what was', async () => {
  const topology = new ScriptedTopology()
  const { proxy, metric } = await gatewayOf(topology, { limits: { ringPoints: 480 } })
  await eventually('the source to be open', () => topology.opens === 1)
  expect(await metric('source_up')).toBe(0)
  topology.say({ state: 'live' })
  topology.set(1n, three)
  await proxy.ready()
  expect(await metric('source_up')).toBe(1)
  topology.say({ state: 'lost', error: 'no route' })
  expect(await metric('source_up')).toBe(0)
  topology.say({ state: 'live' })
  expect(await metric('source_up')).toBe(1)

  expect(await metric('degraded')).toBe(0)
  expect(await metric('refused_entries_total')).toBeUndefined()
  topology.refuse('upstreams/u9', new RefusedEntryError('weight', 'weight: expected a number, got -1'))
  topology.set(2n, three, { degraded: true })
  expect(await metric('degraded')).toBe(1)
  expect(await metric('refused_entries_total', { reason: 'weight' })).toBe(1)
  topology.set(3n, [...three, { id: 'u4' }])
  expect(await metric('degraded')).toBe(1)
  expect(await metric('refused_entries_total', { reason: 'limit' })).toBe(1)
  topology.set(4n, three)
  expect(await metric('degraded')).toBe(0)
})

test('shares sum to 1, follow the weights, and are 0 off the ring; heaviest over mean is that of the ring', async () => {
  const upstreams = [{ id: 'u1' }, { id: 'u2', weight: 3 }, { id: 'u3', state: 'draining' as const }]
  const { proxy, metric } = await gatewayOf(new ScriptedTopology(upstreams))
  await proxy.ready()
  const shares = new HashRing([{ id: 'u1' }, { id: 'u2', weight: 3 }]).shares()
  expect(await metric('share')).toBeCloseTo(1, 12)
  for (const id of ['u1', 'u2']) expect(await metric('share', { upstream: id })).toBe(shares.get(id))
  expect(await metric('share', { upstream: 'u3' })).toBe(0)
  expect(await metric('eligible', { upstream: 'u3' })).toBe(0)
  expect(await metric('heaviest_over_mean')).toBe(Math.max(...shares.values()) * 2)
})

test('apache/apisix#2369, #7610, #13141: an upstream that left leaves no series, not even by a request that ends later', async () => {
  const waiting: (() => void)[] = []
  const handler: Handler = (request, response) => {
    if (request.url === '/slow') waiting.push(() => response.end())
    else response.destroy()
  }
  const [upstream] = await startUpstreams(['u1'], handler)
  const live = { id: 'u1', url: upstream?.url ?? '' }
  const topology = new ScriptedTopology([live, { id: 'u2' }])
  const circuitBreaker = { consecutiveFailures: 1 }
  const { proxy, url, metric } = await gatewayOf(topology, { circuitBreaker, retry: { attempts: 0 } })
  await proxy.ready()
  const headers = { 'x-user-id': keyOwnedBy(new HashRing(['u1', 'u2']), 'u1') }
  const slow = fetch(`${url}/slow`, { headers })
  await eventually('the slow request to be in flight', () => waiting.length === 1)
  expect((await fetch(url, { headers })).status).toBe(502)
  expect(await metric('requests_total', { upstream: 'u1' })).toBe(1)
  expect(await metric('ejections_total', { upstream: 'u1' })).toBe(1)

  topology.set(2n, [{ id: 'u2' }, { id: 'u3' }])
  const named = async () => (await seriesOf(proxy)).filter(({ labels }) => labels.upstream === 'u1')
  expect(await named()).toEqual([])
  for (const answer of waiting) answer()
  expect((await slow).status).toBe(200)
  await eventually('the slow request to be counted', () =>
    metric('requests_total', { upstream: '', status_class: '2xx' }),
  )
  expect(await named()).toEqual([])
  expect(await metric('request_duration_seconds_count', { upstream: '' })).toBe(1)

  topology.set(3n, [live, { id: 'u2' }])
  expect(await metric('requests_total', { upstream: 'u1' })).toBeUndefined()
  expect((await fetch(url, { headers })).status).toBe(502)
  expect(await metric('requests_total', { upstream: 'u1' })).toBe(1)
})

test('upstreams held though they disappeared: a gauge, the status and one event a change', async () => {
  const topology = new ScriptedTopology([{ id: 'u1' }, { id: 'u2' }])
  const { proxy, metric } = await gatewayOf(topology)
  const told: unknown[] = []
  proxy.on('held', ({ upstreams }) => told.push(upstreams))
  await proxy.ready()
  expect(await metric('held_upstreams')).toBe(0)
  topology.set(2n, [{ id: 'u1' }, { id: 'u2' }], { held: ['u2'], degraded: true })
  topology.set(3n, [{ id: 'u1' }, { id: 'u2' }], { held: ['u2'], degraded: true })
  expect(await metric('held_upstreams')).toBe(1)
  expect(proxy.status()).toMatchObject({ held: ['u2'], degraded: true })
  topology.set(4n, [{ id: 'u1' }])
  expect(await metric('held_upstreams')).toBe(0)
  expect(told).toEqual([['u2'], []])
})
