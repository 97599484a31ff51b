import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import express from 'express'
import { expect, onTestFinished, test } from 'vitest'
import {
  type ConsistentHashProxyOptions,
  consistentHashProxy,
  OptionsError,
  staticTopology,
} from '../../src/index.ts'
import { metricOf } from '../support/metrics.ts'
import { ScriptedTopology } from '../support/scripted-topology.ts'
import { eventually, startUpstream, type TestUpstream } from '../support/servers.ts'

async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

function proxyTo(upstream: TestUpstream, options: Partial<ConsistentHashProxyOptions> = {}) {
  const proxy = consistentHashProxy({
    key: 'header:x-user-id',
    topology: staticTopology([{ id: upstream.id, url: upstream.url }]),
    ...options,
  })
  onTestFinished(() => proxy.close())
  return proxy
}

test('in Express 5, mounted: the upstream sees the path below the mount point, other routes stay', async () => {
  const upstream = await startUpstream('a')
  const app = express()
  app.use('/api', proxyTo(upstream))
  app.get('/own', (_request, response) => void response.send('own'))
  const url = await listen(createServer(app))
  expect(await (await fetch(`${url}/api/x%2Fy?z=1`)).text()).toBe('a')
  expect(await (await fetch(`${url}/own`)).text()).toBe('own')
  expect(upstream.received.map(({ url }) => url)).toEqual(['/x%2Fy?z=1'])
})

test('in a bare server, as its listener and called by hand', async () => {
  const upstream = await startUpstream('a')
  const proxy = proxyTo(upstream)
  for (const server of [createServer(proxy), createServer((request, response) => proxy(request, response))]) {
    const url = await listen(server)
    expect(await (await fetch(`${url}/x`, { method: 'POST', body: 'content' })).text()).toBe('a')
  }
  expect(upstream.received.map(({ url, body }) => [url, String(body)])).toEqual([
    ['/x', 'content'],
    ['/x', 'content'],
  ])
})

test('as a Connect middleware: `next` is not called, not even when all fails; headers set before stay', async () => {
  const upstream = await startUpstream('a')
  const proxy = proxyTo(upstream)
  const calls: unknown[] = []
  const url = await listen(
    createServer((request, response) => {
      response.setHeader('x-gateway', 'ours')
      proxy(request, response, (error) => calls.push(error))
    }),
  )
  const good = await fetch(url)
  expect([good.status, good.headers.get('x-gateway')]).toEqual([200, 'ours'])
  await upstream.stop()
  const bad = await fetch(url)
  expect([bad.status, bad.headers.get('x-gateway')]).toEqual([503, 'ours'])
  expect(calls).toEqual([])
})

test('an application’s error handler is not taken for the proxy’s: an error before it never reaches an upstream', async () => {
  const upstream = await startUpstream('a')
  const app = express()
  app.use((_request, _response, next) => next(new Error('refused by the application')))
  app.use(proxyTo(upstream))
  app.use(
    ((_error, _request, response, _next) => void response.status(418).end()) as express.ErrorRequestHandler,
  )
  expect((await fetch(await listen(createServer(app)))).status).toBe(418)
  expect(upstream.count).toBe(0)
})

test('two proxies in one process share nothing: metrics, breakers, events, closing', async () => {
  const upstream = await startUpstream('a')
  const other = await startUpstream('a')
  await other.stop()
  const shared = staticTopology([{ id: 'a', url: upstream.url }])
  const well = proxyTo(upstream, { topology: shared })
  const twin = proxyTo(upstream, { topology: shared })
  const ill = proxyTo(other, { circuitBreaker: { consecutiveFailures: 1 } })
  const retries: string[] = []
  well.on('giveUp', () => retries.push('well'))
  ill.on('giveUp', () => retries.push('ill'))
  const [wellUrl, twinUrl, illUrl] = await Promise.all(
    [well, twin, ill].map((proxy) => listen(createServer(proxy))),
  )
  expect((await fetch(`${illUrl}`)).status).toBe(503)
  expect((await fetch(`${wellUrl}`)).status).toBe(200)
  expect([ill, well].map((proxy) => proxy.status().upstreams[0]?.breaker)).toEqual(['open', 'closed'])
  expect(await metricOf(well, 'requests_total')).toBe(1)
  expect(await metricOf(ill, 'requests_total')).toBe(1)
  expect(await metricOf(twin, 'requests_total')).toBeUndefined()
  expect(retries).toEqual(['ill'])
  await well.close()
  expect((await fetch(`${wellUrl}`)).status).toBe(503)
  expect((await fetch(`${twinUrl}`)).status).toBe(200)
  expect(twin.status().source).toEqual({ state: 'live' })
})

test('a proxy that cannot be made starts nothing', async () => {
  const upstream = await startUpstream('a')
  const first = proxyTo(upstream)
  const source = new ScriptedTopology([{ id: 'a' }])
  if (!first.metrics) throw new Error('expected metrics')
  const metrics = { registry: first.metrics }
  expect(() => proxyTo(upstream, { topology: source, metrics })).toThrow(OptionsError)
  expect(() => proxyTo(upstream, { topology: source, key: 'heeder:x' })).toThrow(OptionsError)
  expect(() => proxyTo(upstream, { topology: source, trustedProxies: ['10/8'] })).toThrow(OptionsError)
  // Sources are opened a moment behind construction: one that is made now would be opened behind those.
  const last = new ScriptedTopology([{ id: 'a' }])
  proxyTo(upstream, { topology: last })
  await eventually('a later source', () => last.opens === 1)
  expect(source.opens).toBe(0)
})
