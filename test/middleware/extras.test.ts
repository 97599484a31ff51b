import type { ServerResponse } from 'node:http'
import { expect, test } from 'vitest'
import { metricOf } from '../support/metrics.ts'
import { call, startGatewayTo } from '../support/raw-http.ts'
import { ScriptedTopology } from '../support/scripted-topology.ts'
import { eventually, type Handler, startGateway, startUpstream, startUpstreams } from '../support/servers.ts'
import { RawClient } from '../support/web-sockets.ts'

test('rewritePath changes the target below the base path; what it gives must be a path', async () => {
  const upstream = await startUpstream('a')
  const gateway = await startGatewayTo([{ id: 'a', url: `${upstream.url}/base/` }], {
    rewritePath: (path, request) =>
      path === '/bad' ? 'no path' : path.replace(/^\/v1/, `/${request.headers['x-version']}`),
  })
  const headers = { 'x-version': 'v2' }
  expect((await call(gateway, { path: '/v1/x%2Fy?z=/v1', headers })).status).toBe(200)
  expect((await call(gateway, { path: '/bad', headers })).status).toBe(500)
  expect(upstream.received.map(({ url }) => url)).toEqual(['/base/v2/x%2Fy?z=/v1'])
})

test('exposeUpstreamId names who answered, and nobody else may', async () => {
  const says: Handler = (_request, response) => response.setHeader('x-upstream-id', 'forged').end()
  const upstream = await startUpstream('ü 1', says)
  const open = await startGatewayTo([upstream], { exposeUpstreamId: true })
  expect((await call(open)).headers['x-upstream-id']).toBe('%C3%BC%201')
  await upstream.stop()
  expect((await call(open)).headers).not.toHaveProperty('x-upstream-id')
})

test('long-lived requests have counters and a limit of their own and are no part of the load', async () => {
  const streams: ServerResponse[] = []
  const upstreams = await startUpstreams(['a', 'b'], (request, response, self) => {
    if (request.url !== '/events') return response.end(self.id)
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(`data: ${self.id}\n\n`)
    streams.push(response)
  })
  const gateway = await startGatewayTo(upstreams, {
    longLived: (request) => request.headers.accept === 'text/event-stream',
    limits: { longLivedPerUpstream: 1 },
    boundedLoad: { floor: 1 },
  })
  const listen = () =>
    new RawClient(gateway.port).send(
      'GET /events HTTP/1.1\r\nhost: x\r\naccept: text/event-stream\r\nx-user-id: 1\r\n\r\n',
    )
  const [first, second] = [listen(), listen()]
  await eventually('two streams', () => first.body !== '' && second.body !== '')
  expect(new Set([first, second].map(({ body }) => /data: ./.exec(body)?.[0]))).toEqual(
    new Set(['data: a', 'data: b']),
  )
  const third = listen()
  await eventually('the answer', () => third.body !== '')
  expect(third.head).toMatch(/^HTTP\/1.1 503 .*retry-after: /s)
  expect(gateway.proxy.status()).toMatchObject({
    inFlight: 0,
    upstreams: [
      { inFlight: 0, longLived: 1 },
      { inFlight: 0, longLived: 1 },
    ],
  })
  expect(await metricOf(gateway.proxy, 'long_lived')).toBe(2)
  expect((await call(gateway, { headers: { 'x-user-id': '1' } })).status).toBe(200)
  for (const stream of streams) stream.end()
  first.socket.destroy()
  second.socket.destroy()
  await eventually('no stream', async () => (await metricOf(gateway.proxy, 'long_lived')) === 0)
})

test('long-lived requests take no connection from the pool: the others do not wait behind them', async () => {
  const upstream = await startUpstream('a', (request, response) => {
    if (request.url === '/events') response.writeHead(200).write('data: 1\n\n')
    else response.end()
  })
  const gateway = await startGatewayTo([upstream], {
    longLived: ({ url }) => url === '/events',
    limits: { connectionsPerUpstream: 1 },
    timeouts: { firstByteMs: 500 },
  })
  const stream = new RawClient(gateway.port).send('GET /events HTTP/1.1\r\nhost: x\r\n\r\n')
  await eventually('the stream', () => stream.body !== '')
  expect((await call(gateway)).status).toBe(200)
  stream.socket.destroy()
})

test('an application that answers by itself while the upstream is silent: nobody waits for that one any longer', async () => {
  const upstream = await startUpstream('a', () => {})
  const gateway = await startGateway(
    { key: 'ip', topology: new ScriptedTopology([{ id: 'a', url: upstream.url }]) },
    (app) =>
      app.use((_request, response, next) => {
        setTimeout(() => response.status(504).send('too slow for us'), 50)
        next()
      }),
  )
  expect(String((await call(gateway)).body)).toBe('too slow for us')
  await eventually('the upstream to be let go', () => upstream.active === 0, 1_000)
  expect(gateway.proxy.status()).toMatchObject({ inFlight: 0, upstreams: [{ breaker: 'closed' }] })
  expect(await metricOf(gateway.proxy, 'requests_total', { outcome: 'client-gone' })).toBe(1)
})

test('an upstream that its health checks find ill is ejected and comes back; one that left is not checked', async () => {
  let isWell = true
  const upstreams = await startUpstreams(['a', 'b'], (request, response, self) => {
    self.received.push({
      ...{ method: 'GET', url: request.url ?? '', headers: request.headers },
      ...{ rawHeaders: [], body: Buffer.alloc(0) },
    })
    response.writeHead(self.id === 'a' && request.url === '/healthz' && !isWell ? 500 : 200).end(self.id)
  })
  const [a, b] = upstreams
  if (!a || !b) throw new Error('expected two upstreams')
  const both = upstreams.map(({ id, url }) => ({ id, url }))
  const source = new ScriptedTopology(both)
  const gateway = await startGateway({
    key: 'header:x-user-id',
    topology: source,
    healthCheck: { intervalMs: 10, unhealthyThreshold: 2, healthyThreshold: 2 },
    slowStart: false,
  })
  await gateway.proxy.ready()
  const ofA = () => gateway.proxy.status().upstreams.find(({ id }) => id === 'a')
  const answers = async () => {
    const ids = new Set<string>()
    for (let key = 0; key < 20; key += 1) {
      const { status, body } = await call(gateway, { headers: { 'x-user-id': String(key) } })
      expect(status).toBe(200)
      ids.add(String(body))
    }
    return [...ids].sort()
  }
  expect(await answers()).toEqual(['a', 'b'])
  isWell = false
  await eventually('the ejection', () => ofA()?.eligible === false)
  expect(ofA()).toMatchObject({ healthy: false, breaker: 'closed' })
  expect(await answers()).toEqual(['b'])
  expect(await metricOf(gateway.proxy, 'ejections_total', { upstream: 'a' })).toBe(1)
  isWell = true
  await eventually('the recovery', () => ofA()?.eligible)
  expect(await answers()).toEqual(['a', 'b'])
  expect(await metricOf(gateway.proxy, 'recoveries_total', { upstream: 'a' })).toBe(1)

  source.set(2n, both.slice(1))
  const [checksOfA, checksOfB] = [a.count, b.count]
  await eventually('more checks of b', () => b.count >= checksOfB + 5)
  expect(a.count).toBeLessThanOrEqual(checksOfA + 1) // one may have been on its way
})
