import { describe, expect, test } from 'vitest'
import { HashRing, type ResponseHookContext } from '../../src/index.ts'
import { metricOf } from '../support/metrics.ts'
import { call, startGatewayTo, startRawUpstream } from '../support/raw-http.ts'
import { eventually, keyOwnedBy, receive, startUpstream, startUpstreams } from '../support/servers.ts'
import { RawClient } from '../support/web-sockets.ts'

describe('onRequest', () => {
  test('sees each attempt, and what it does to the headers goes to that upstream only', async () => {
    const [a, b] = await startUpstreams(['a', 'b'])
    if (!a || !b) throw new Error('expected two upstreams')
    await a.stop()
    const seen: unknown[] = []
    const gateway = await startGatewayTo([a, b], {
      onRequest({ request, upstream, attempt, headers }) {
        seen.push([request.method, upstream.id, attempt, headers['x-first']])
        headers['x-first'] ??= upstream.id
        headers['X-Second'] = ['1', '2']
        delete headers['x-secret']
        headers['x-gone'] = undefined
      },
    })
    const ring = new HashRing([
      { id: 'a', weight: 1 },
      { id: 'b', weight: 1 },
    ])
    const headers = { 'x-user-id': keyOwnedBy(ring, 'a'), 'x-secret': 'of the client', 'x-gone': 'too' }
    expect((await call(gateway, { headers })).status).toBe(200)
    expect(seen).toEqual([
      ['GET', 'a', 1, undefined],
      ['GET', 'b', 2, undefined],
    ])
    expect(b.received[0]?.headers).toMatchObject({ 'x-first': 'b', 'x-second': '1, 2' })
    expect(b.received[0]?.headers).not.toHaveProperty('x-secret')
    expect(b.received[0]?.headers).not.toHaveProperty('x-gone')
  })

  test('takes the place of the client’s header, whatever spelling it uses', async () => {
    const upstream = await startRawUpstream('a', (socket) => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')
    })
    const gateway = await startGatewayTo([upstream], {
      onRequest({ headers }) {
        headers['X-TENANT'] = 'ours'
      },
    })
    await call(gateway, { headers: { 'X-Tenant': 'forged' } })
    expect(upstream.heads[0]?.match(/^x-tenant: .*$/gim)).toEqual(['x-tenant: ours'])
  })

  test.each([
    ['GET', undefined],
    ['POST', 'GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n'],
  ])('cannot break the framing, nor what the gateway says of itself: %s', async (method, body) => {
    const upstream = await startUpstream('a')
    const gateway = await startGatewayTo([upstream], {
      onRequest({ headers }) {
        Object.assign(headers, {
          'Content-Length': '1',
          'Transfer-Encoding': 'chunked',
          Connection: 'x-user-id',
          Upgrade: 'h2c',
          Expect: '100-continue',
          TE: 'gzip',
          'X-Topology': 'forged',
          'x-ring-owner': 'forged',
          'X-Key-Hash': 'forged',
          'X-Attempt': '9',
        })
      },
    })
    const request = { method, headers: { 'x-user-id': '1', te: 'trailers' }, ...(body && { body }) }
    for (let index = 0; index < 2; index += 1) expect((await call(gateway, request)).status).toBe(200)
    expect(upstream.received.map(({ url, body }) => [url, String(body)])).toEqual([
      ['/', body ?? ''],
      ['/', body ?? ''],
    ])
    for (const { headers, rawHeaders } of upstream.received) {
      expect(headers['x-user-id']).toBe('1')
      expect([headers['x-ring-owner'], headers['x-attempt'], headers.te]).toEqual(['a', '1', 'trailers'])
      expect(headers).not.toHaveProperty('upgrade')
      expect(headers).not.toHaveProperty('expect')
      expect(rawHeaders.join()).not.toContain('forged')
    }
  })

  test('that throws, or leaves what is no header: 500 for that request only, its slot is freed', async () => {
    const upstream = await startUpstream('a')
    const logged: string[] = []
    const gateway = await startGatewayTo([upstream], {
      logger: { debug() {}, info() {}, warn() {}, error: (_fields, message) => logged.push(message) },
      onRequest({ request, headers }) {
        if (request.url === '/throws') throw new Error('the operator’s mistake')
        if (request.url === '/header') headers['x-bad'] = 'two\r\nlines: 1'
      },
    })
    const statuses: (number | undefined)[] = []
    for (const path of ['/throws', '/header', '/fine']) {
      const answer = await call(gateway, { path, headers: { 'x-user-id': '1' } })
      statuses.push(answer.status)
      expect(String(answer.body)).not.toMatch(/mistake|lines|Error| at /)
    }
    expect(statuses).toEqual([500, 500, 200])
    expect(upstream.received.map(({ url }) => url)).toEqual(['/fine'])
    expect(logged).toHaveLength(2)
    expect(gateway.proxy.status()).toMatchObject({ inFlight: 0, upstreams: [{ breaker: 'closed' }] })
    expect(await metricOf(gateway.proxy, 'requests_total', { outcome: 'failed' })).toBe(2)
  })
})

describe('onResponse', () => {
  test('sees the answer, and what it does to the headers goes to the client', async () => {
    const upstream = await startUpstream('a', (_request, response) => {
      const headers = { 'x-internal': '1', 'set-cookie': ['a=1', 'b=2'], 'x-topology': 'id=x' }
      response.writeHead(201, headers).end('body')
    })
    const seen: Partial<ResponseHookContext>[] = []
    const gateway = await startGatewayTo([upstream], {
      onResponse({ upstream, attempt, status, headers }) {
        seen.push({ upstream, attempt, status, headers: { ...headers } })
        delete headers['x-internal']
        headers['X-Served-By'] = upstream.id
      },
    })
    const answer = await call(gateway)
    expect(seen).toMatchObject([{ upstream: { id: 'a' }, attempt: 1, status: 201 }])
    expect(seen[0]?.headers).toHaveProperty('x-internal', '1')
    expect(seen[0]?.headers).not.toHaveProperty('x-topology')
    expect(answer.headers).toMatchObject({ 'x-served-by': 'a', 'set-cookie': ['a=1', 'b=2'] })
    expect(answer.headers).not.toHaveProperty('x-internal')
  })

  test.each(['known length', 'chunks'])('cannot break the framing: %s', async (how) => {
    const upstream = await startUpstream('a', async (request, response, self) => {
      await receive(request, self)
      if (how === 'chunks') response.write('')
      response.end('exactly this')
    })
    const gateway = await startGatewayTo([upstream], {
      onResponse({ headers }) {
        Object.assign(headers, {
          'Content-Length': '3',
          'transfer-encoding': 'gzip',
          Connection: 'close',
          'X-Topology': 'id=x',
          'keep-alive': 'timeout=1',
        })
      },
    })
    const client = new RawClient(gateway.port)
    client.send('GET / HTTP/1.1\r\nhost: x\r\n\r\n')
    await eventually('the first answer', () => client.body.includes('exactly this'))
    client.send('GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n')
    await eventually('the end', () => client.ended)
    expect(client.received.match(/HTTP\/1.1 200 OK/g)).toHaveLength(2)
    expect(client.received.match(/exactly this/g)).toHaveLength(2)
    expect(client.head.toLowerCase()).not.toMatch(/content-length: 3|gzip|connection: close|x-topology|=1$/m)
  })

  test('that throws, or leaves what is no header: 500 for that request only; nobody holds the upstream’s answer', async () => {
    const upstream = await startUpstream('a', (_request, response) => response.end('x'.repeat(1_000_000)))
    const gateway = await startGatewayTo([upstream], {
      limits: { connectionsPerUpstream: 1 },
      onResponse({ request, headers }) {
        if (request.url === '/throws') throw new Error('the operator’s mistake')
        if (request.url === '/header') headers['x bad'] = 'name'
      },
    })
    const statuses: (number | undefined)[] = []
    for (const path of ['/throws', '/header', '/throws', '/fine']) {
      statuses.push((await call(gateway, { path })).status)
    }
    expect(statuses).toEqual([500, 500, 500, 200])
    expect(gateway.proxy.status()).toMatchObject({ inFlight: 0, upstreams: [{ breaker: 'closed' }] })
  })
  test('that leaves what is no header: nothing of the upstream’s answer is in ours', async () => {
    const upstream = await startUpstream('a', (_request, response) => {
      response
        .writeHead(200, 'Fine', { 'content-encoding': 'gzip', etag: '"1"', 'set-cookie': 'a=1' })
        .end('x')
    })
    const gateway = await startGatewayTo([upstream], {
      onResponse({ headers }) {
        headers['x-bad'] = 'two\r\nlines: 1'
      },
    })
    const answer = await call(gateway)
    expect([answer.status, answer.statusText]).toEqual([500, 'Internal Server Error'])
    for (const name of ['content-encoding', 'etag', 'set-cookie'])
      expect(answer.headers).not.toHaveProperty(name)
  })
})
