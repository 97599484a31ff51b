import { expect, expectTypeOf, test } from 'vitest'
import {
  type ConsistentHashProxyOptions,
  HashRing,
  type ProxyEvents,
  RefusedEntryError,
} from '../../src/index.ts'
import { metricOf } from '../support/metrics.ts'
import { ScriptedTopology } from '../support/scripted-topology.ts'
import {
  answerId,
  eventually,
  type Handler,
  keyOwnedBy,
  startGateway,
  startUpstreams,
  type TestUpstream,
} from '../support/servers.ts'

const names = [
  ...(['topology', 'ejection', 'recovery', 'overflow', 'overCapacity', 'retry', 'giveUp'] as const),
  ...([
    'staleTopology',
    'sourceLost',
    'sourceRegained',
    'refused',
    'held',
    'digestMismatch',
    'missingKey',
  ] as const),
  ...(['request'] as const),
]

async function gatewayBefore(handler: Handler = answerId, options: Partial<ConsistentHashProxyOptions> = {}) {
  const upstreams = await startUpstreams(['u1', 'u2'], handler)
  const topology = new ScriptedTopology()
  const gateway = await startGateway({ key: 'header:x-user-id', topology, ...options })
  const told: [name: keyof ProxyEvents, ...details: unknown[]][] = []
  for (const name of names) gateway.proxy.on(name, (...details: unknown[]) => told.push([name, ...details]))
  await eventually('the source to be open', () => topology.opens === 1)
  topology.say({ state: 'live' })
  topology.set(
    1n,
    upstreams.map(({ id, url }) => ({ id, url })),
  )
  await gateway.proxy.ready()
  const ring = new HashRing(['u1', 'u2'])
  const get = (owner: string) => fetch(gateway.url, { headers: { 'x-user-id': keyOwnedBy(ring, owner) } })
  const quiet = () => eventually('the request to end', () => told.some(([name]) => name === 'request'))
  return {
    ...gateway,
    upstreams: upstreams as [TestUpstream, TestUpstream],
    topology,
    told,
    get,
    quiet,
    ring,
  }
}

test('the list here is that of the types', () => {
  expectTypeOf<(typeof names)[number]>().toEqualTypeOf<keyof ProxyEvents>()
})

test('a topology: who came, left and changed, once for each', async () => {
  const { topology, told, ring, upstreams } = await gatewayBefore()
  const [u1, u2] = [
    { id: 'u1', url: upstreams[0].url },
    { id: 'u2', url: upstreams[1].url },
  ]
  topology.set(2n, [{ ...u1, weight: 2 }, { id: 'u3' }])
  await eventually('the second topology', () => told.length === 2)
  topology.set(2n ** 60n, [u1, u2], { epoch: 1 })
  await eventually('the third topology', () => told.length === 3)
  const change = {
    epoch: 0,
    digest: ring.digest,
    removed: [],
    changed: [],
    buildMilliseconds: expect.any(Number),
  }
  const digest = new HashRing([{ id: 'u1', weight: 2 }, 'u3']).digest
  expect(told).toEqual([
    ['topology', { ...change, revision: 1n, added: ['u1', 'u2'] }],
    ['topology', { ...change, revision: 2n, digest, added: ['u3'], removed: ['u2'], changed: ['u1'] }],
    [
      'topology',
      { ...change, revision: 2n ** 60n, epoch: 1, added: ['u2'], removed: ['u3'], changed: ['u1'] },
    ],
  ])
})

test('a refused connection: ejection, the sign of a stale topology, retry and the request, once each and in order', async () => {
  const { told, get, quiet, upstreams } = await gatewayBefore(answerId, {
    circuitBreaker: { consecutiveFailures: 1 },
  })
  await upstreams[0].stop()
  told.length = 0
  expect((await get('u1')).status).toBe(200)
  await quiet()
  expect(told).toEqual([
    ['ejection', { upstream: 'u1', cause: 'connect' }],
    ['staleTopology', { upstream: 'u1', sign: 'connect', confirmed: false }],
    ['retry', { upstream: 'u1', attempt: 1, reason: 'connect' }],
    ['request', { upstream: 'u2', status: 200, outcome: 'answered', milliseconds: expect.any(Number) }],
  ])
})

test('giving up, a missing key and a refused entry tell why', async () => {
  const { told, url, quiet, topology } = await gatewayBefore((request) => void request.socket.destroy(), {
    retry: { attempts: 0 },
  })
  told.length = 0
  const entry = 'upstreams/u9'
  topology.refuse(entry, new RefusedEntryError('url', 'url: expected one'))
  expect((await fetch(url)).status).toBe(502)
  await quiet()
  const upstream = expect.stringMatching(/^u[12]$/)
  expect(told).toEqual([
    ['refused', { entry, reason: 'url', message: 'url: expected one' }],
    ['missingKey'],
    ['giveUp', { upstream, attempt: 1, reason: 'attempts' }],
    ['request', { upstream, status: 502, outcome: 'failed', milliseconds: expect.any(Number) }],
  ])
})

test('a source that is lost and comes back is told once each', async () => {
  const { topology, told } = await gatewayBefore()
  told.length = 0
  topology.say({ state: 'lost', error: 'no route' })
  topology.say({ state: 'live' })
  topology.say({ state: 'live' })
  expect(told).toEqual([['sourceLost', { error: 'no route' }], ['sourceRegained']])
})

test('a listener that throws or rejects harms neither the request nor other listeners nor the metrics, and is logged', async () => {
  const logged: string[] = []
  const note = (fields: object, message: string) =>
    void logged.push(`${message} ${Object.values(fields).join()}`)
  const logger = { debug() {}, info() {}, warn() {}, error: note }
  const { proxy, topology, get, upstreams, told } = await gatewayBefore(answerId, { logger })
  const fault = () => {
    throw new Error('a fault of the listener')
  }
  for (const name of names) proxy.on(name, fault)
  proxy.on('request', async () => fault())
  const after: string[] = []
  for (const name of names) proxy.on(name, () => after.push(name))

  told.length = 0
  await upstreams[0].stop()
  expect((await get('u1')).status).toBe(200)
  topology.set(2n, [{ id: 'u2', url: upstreams[1].url }])
  expect((await get('u1')).status).toBe(200)
  await eventually('both requests to end', () => after.filter((name) => name === 'request').length === 2)
  expect(new Set(after)).toEqual(new Set(['retry', 'staleTopology', 'topology', 'request']))
  expect(after).toEqual(told.map(([name]) => name))
  expect(await metricOf(proxy, 'requests_total')).toBe(2)
  expect(proxy.status()).toMatchObject({ revision: '2', inFlight: 0 })
  expect(logged).toContain('a listener of the proxy failed Error: a fault of the listener,request')
  expect(logged).toHaveLength(after.length + 2)
})

test('a listener can be taken off again', async () => {
  const { proxy, get } = await gatewayBefore()
  let heard = 0
  const listener = () => {
    heard += 1
  }
  expect(proxy.on('request', listener)).toBe(proxy)
  await get('u1')
  await eventually('the first request to be heard', () => heard === 1)
  expect(proxy.off('request', listener)).toBe(proxy)
  await get('u1')
  await eventually('the second to be counted', async () => (await metricOf(proxy, 'requests_total')) === 2)
  expect(heard).toBe(1)
})
