// The public surface as users write it. What is said of types here is checked by `tsc`, not when it runs.

import { createServer, type IncomingMessage, type OutgoingHttpHeaders, type ServerResponse } from 'node:http'
import express, { type RequestHandler } from 'express'
import pino from 'pino'
import { Registry } from 'prom-client'
import { expect, expectTypeOf, onTestFinished, test } from 'vitest'
import {
  type ConsistentHashProxy,
  type ConsistentHashProxyOptions,
  consistentHashProxy,
  etcdTopology,
  fileTopology,
  HashRing,
  type KeySource,
  key,
  OptionsError,
  type OwnershipGuard,
  ownershipGuard,
  type ProxyEvents,
  type ProxyStatus,
  type Registration,
  registerUpstream,
  staticTopology,
  type TopologySource,
  type Upstream,
} from '../../src/index.ts'

const topology = staticTopology(['http://127.0.0.1:1', 'b=http://127.0.0.1:2/base*2'])

/** Every group and every option, with a value that is not its default where there is another. */
const everything: ConsistentHashProxyOptions = {
  key: key.header('x-user-id'),
  topology,
  ring: { virtualNodes: 200, hash: 'xxh64', seed: 7n, hashTags: true },
  boundedLoad: { factor: 1.5, floor: 4, overflow: 'reject' },
  circuitBreaker: {
    ...{ consecutiveFailures: 3, failureRatePercent: 40, minimumRequests: 10, windowMs: 5_000 },
    ...{ openMs: 1_000, maxOpenMs: 60_000, jitter: 0.2, halfOpenProbes: 2, distinctKeys: 1 },
    ...{ statuses: [503], maxEjectionPercent: 30, abandonedAfterMs: 5_000 },
  },
  retry: {
    ...{ attempts: 1, hostPolicy: 'same', statuses: [503], perTryTimeoutMs: 1_000 },
    ...{ backoff: { baseMs: 10, maxMs: 100 }, budget: { percent: 10, minPerSecond: 1 } },
  },
  healthCheck: {
    ...{ path: '/ready?full', intervalMs: 1_000, jitter: 0, timeoutMs: 500 },
    ...{ healthyThreshold: 1, unhealthyThreshold: 1, expectedStatuses: [204] },
  },
  slowStart: { durationMs: 1_000 },
  timeouts: {
    ...{ connectMs: 1_000, firstByteMs: 2_000, idleMs: 3_000, totalMs: 4_000 },
    ...{ webSocketHandshakeMs: 1_000, drainMs: 1_000 },
  },
  limits: {
    ...{ requestHeaderBytes: 8_192, keyBytes: 100, replayBytes: 0, connectionsPerUpstream: 8 },
    ...{ inFlight: 1_000, longLivedPerUpstream: 10, ringPoints: 10_000 },
  },
  transport: 'http-proxy',
  upstreamTls: { servername: 'upstream.test' },
  hostHeader: 'upstream',
  rewritePath: (path, request) => {
    expectTypeOf(request.originalUrl).toEqualTypeOf<string | undefined>()
    return path.toLowerCase()
  },
  onRequest({ request, upstream, attempt, headers }) {
    expectTypeOf(request).toEqualTypeOf<IncomingMessage>()
    expectTypeOf(upstream).toEqualTypeOf<Upstream>()
    expectTypeOf(attempt).toEqualTypeOf<number>()
    expectTypeOf(headers).toEqualTypeOf<OutgoingHttpHeaders>()
  },
  onResponse: ({ status, headers }) => {
    headers['x-status'] = status
  },
  metrics: { registry: new Registry(), prefix: 'gateway_' },
  logger: pino({ level: 'silent' }),
  onMissingKey: (request) => request.socket.remoteAddress,
  trustedProxies: ['10.0.0.0/8', 'loopback', 'unix'],
  forwardedHeaders: ['x-forwarded', 'forwarded', 'via'],
  exposeUpstreamId: true,
  mountPath: '/api',
  longLived: (request) => request.headers.accept === 'text/event-stream',
}

function make(options: ConsistentHashProxyOptions): ConsistentHashProxy {
  const proxy = consistentHashProxy(options)
  onTestFinished(() => proxy.close())
  return proxy
}

test('key and topology are enough, and everything else can be said', () => {
  make({ key: 'header:x-user-id', topology })
  make(everything)
  make({ key: 'ip', topology, boundedLoad: false, healthCheck: false, slowStart: false, metrics: false })
  make({ key: (request) => request.url?.length, topology, onMissingKey: 'reject', ring: { seed: 1 } })
  // A function of what the framework calls a request is one too; of another kind of thing it is none.
  make({ key: ({ params, ip }: express.Request<{ id: string }>) => params.id ?? ip, topology })
  make({ key: key.chain((request: express.Request) => request.get('x-user-id'), 'ip'), topology })
  // @ts-expect-error no request is a number
  make({ key: (request: number) => String(request), topology })
  // @ts-expect-error the key has no default
  expect(() => make({ topology })).toThrow(OptionsError)
  // @ts-expect-error neither has the topology
  expect(() => make({ key: 'ip' })).toThrow(OptionsError)
  // @ts-expect-error a misspelt option is told from the nearest known one
  expect(() => make({ key: 'ip', topology, boundedLoads: {} })).toThrow('boundedLoad')
})

test.each([
  ['header:x-user-id', key.header('x-user-id')],
  ['cookie:sid', key.cookie('sid')],
  ['query:user', key.query('user')],
  ['path', key.path()],
  ['path:1', key.pathSegment(1)],
  ['param:id', key.param('id')],
  ['ip', key.ip()],
  ['body:/user/id', key.body('/user/id')],
  ['body:/prompt:first=256', key.body('/prompt', { firstCharacters: 256 })],
  ['header:x-user-id,cookie:sid,ip', key.chain('header:x-user-id', key.cookie('sid'), key.ip())],
  ['header:x-tenant+query:user', key.composite(key.header('x-tenant'), 'query:user')],
])('the string form %s is a builder’s', (form, built) => {
  expectTypeOf(built).toEqualTypeOf<KeySource>()
  expect(built.description).toBe(form)
  expect(key.parse(form).description).toBe(form)
  make({ key: form, topology })
  make({ key: built, topology })
})

test('it fits where gateways put it', async () => {
  const proxy = make({ key: key.from((request) => request.headers['x-user-id']?.toString()), topology })
  const app = express()
  app.use('/api', proxy)
  const server = createServer(app)
  server.on('upgrade', proxy.upgrade)
  createServer(proxy)
  expectTypeOf(proxy).toExtend<RequestHandler>()
  expectTypeOf(proxy).toExtend<(request: IncomingMessage, response: ServerResponse) => void>()
  expectTypeOf(proxy.ready()).toEqualTypeOf<Promise<void>>()
  expectTypeOf(proxy.close()).toEqualTypeOf<Promise<void>>()
  expectTypeOf(proxy.status()).toEqualTypeOf<ProxyStatus>()
  expectTypeOf(proxy.metrics).toEqualTypeOf<Registry | undefined>()
  expect(JSON.parse(JSON.stringify(proxy.status()))).toEqual(proxy.status())
})

test('events are typed, and listeners chain', () => {
  const proxy = make({ key: 'ip', topology })
  const chained = proxy
    .on('topology', ({ revision, added }) => {
      expectTypeOf(revision).toEqualTypeOf<bigint>()
      expectTypeOf(added).toEqualTypeOf<string[]>()
    })
    .on('ejection', ({ cause }) => expectTypeOf(cause).toExtend<string>())
    .on('recovery', ({ upstream }) => expectTypeOf(upstream).toEqualTypeOf<string>())
    .on('overflow', ({ rank }) => expectTypeOf(rank).toEqualTypeOf<number>())
    .on('retry', ({ reason }) => expectTypeOf(reason).toEqualTypeOf<ProxyEvents['retry'][0]['reason']>())
    .on('staleTopology', ({ confirmed }) => expectTypeOf(confirmed).toEqualTypeOf<boolean>())
    .on('sourceLost', ({ error }) => expectTypeOf(error).toEqualTypeOf<string>())
    .on('sourceRegained', () => {})
    .off('sourceRegained', () => {})
  expect(chained).toBe(proxy)
  // @ts-expect-error there is no such event
  proxy.on('topologies', () => {})
})

test('the parts that stand alone', () => {
  expectTypeOf(staticTopology).returns.toEqualTypeOf<TopologySource>()
  expectTypeOf(fileTopology({ path: '/etc/upstreams.json' })).toEqualTypeOf<TopologySource>()
  const hosts = ['http://127.0.0.1:2379']
  expectTypeOf(
    etcdTopology({ hosts, prefix: '/consistent-hash-proxy/shop/' }),
  ).toEqualTypeOf<TopologySource>()
  expectTypeOf(registerUpstream).returns.toEqualTypeOf<Registration>()
  const guard = ownershipGuard({ id: 'a', topology })
  onTestFinished(() => guard.close())
  expectTypeOf(guard).toEqualTypeOf<OwnershipGuard>()
  express().use(guard)
  expectTypeOf(new HashRing([{ id: 'a', weight: 1 }]).owner('key')).toEqualTypeOf<string | undefined>()
})
