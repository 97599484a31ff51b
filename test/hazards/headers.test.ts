import { expect, test } from 'vitest'
import { HashRing } from '../../src/index.ts'
import { metricOf } from '../support/metrics.ts'
import { call, startGatewayTo, startRawUpstream, valuesOf } from '../support/raw-http.ts'
import { keyOwnedBy, startUpstream, startUpstreams } from '../support/servers.ts'

const ids = ['a', 'b', 'c']

test('golang/go#16875: naming the routing key in Connection strips it neither from the choice nor from the request', async () => {
  const upstreams = await startUpstreams(ids)
  const gateway = await startGatewayTo(upstreams)
  for (let user = 0; user < 20; user += 1) {
    const plain = await call(gateway, { headers: { 'x-user-id': `u${user}` } })
    const named = await call(gateway, {
      headers: {
        'x-user-id': `u${user}`,
        connection: 'close, x-user-id, X-Forwarded-For, x-private',
        'x-private': '1',
      },
    })
    expect(named.body).toEqual(plain.body)
  }
  const named = upstreams.flatMap(({ received }) => received).filter((_, index) => index % 2 === 1)
  for (const { headers } of named) {
    expect(headers['x-user-id']).toMatch(/^u\d+$/)
    expect(headers['x-forwarded-for']).toBe('127.0.0.1')
    expect(headers['x-private']).toBeUndefined()
  }
  expect(await metricOf(gateway.proxy, 'missing_keys_total')).toBe(0)
})

test('hop-by-hop headers stay on their hop, both ways', async () => {
  const upstream = await startRawUpstream('a', (socket) =>
    socket.write(
      'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive, X-Internal, Set-Cookie\r\nKeep-Alive: timeout=99\r\n' +
        'X-Internal: secret\r\nProxy-Authenticate: Basic\r\nUpgrade: h2c\r\nX-Topology: t\r\nX-Attempt: 1\r\nSet-Cookie: a=1\r\n\r\nok',
    ),
  )
  const gateway = await startGatewayTo([upstream])
  const answer = await call(gateway, {
    headers: {
      connection: 'keep-alive, x-hop, Authorization',
      'keep-alive': 'timeout=1',
      'proxy-authorization': 'Basic c2VjcmV0',
      'proxy-connection': 'keep-alive',
      te: 'trailers, deflate',
      'http2-settings': 'AAMAAABkAAQCAAAAAAIAAAAA',
      'x-hop': '1',
      authorization: 'Bearer token',
    },
  })
  const [head = ''] = upstream.heads
  expect(head.toLowerCase()).not.toMatch(/keep-alive: |proxy-|http2-settings|x-hop|deflate/)
  expect(head).toMatch(/\r\nte: trailers/i)
  expect(head).toMatch(/\r\nauthorization: Bearer token/i)
  expect(answer.headers).not.toHaveProperty('x-internal')
  expect(answer.rawHeaders.join().toLowerCase()).not.toMatch(
    /timeout=99|proxy-authenticate|upgrade|x-topology|x-attempt/,
  )
  expect(answer.headers['set-cookie']).toEqual(['a=1'])
})

test('x-forwarded-*, Forwarded and Via are written once whatever the attempts, and never with forged values', async () => {
  const upstreams = await startUpstreams(ids)
  const gateway = await startGatewayTo(upstreams, { forwardedHeaders: ['x-forwarded', 'forwarded', 'via'] })
  const key = keyOwnedBy(new HashRing(upstreams), 'a')
  await upstreams[0]?.stop()
  const answer = await call(gateway, {
    headers: {
      host: 'shop.test:8080',
      'x-user-id': key,
      'x-forwarded-for': '6.6.6.6',
      'x-forwarded-proto': 'https',
      'x-forwarded-host': 'evil.test',
      'x-forwarded-port': '1',
      'x-forwarded-anything': 'forged',
      forwarded: 'for=6.6.6.6',
      via: '1.0 client-proxy',
    },
  })
  expect(answer.status).toBe(200)
  const [received] = upstreams.flatMap(({ received }) => received)
  const values = (name: string) => valuesOf(received?.rawHeaders ?? [], name)
  expect(values('x-attempt')).toEqual(['2'])
  expect(values('x-forwarded-for')).toEqual(['127.0.0.1'])
  expect(values('x-forwarded-proto')).toEqual(['http'])
  expect(values('x-forwarded-host')).toEqual(['shop.test:8080'])
  expect(values('x-forwarded-port')).toEqual(['8080'])
  expect(values('x-forwarded-anything')).toEqual([])
  expect(values('forwarded')).toEqual(['for=127.0.0.1;proto=http;host="shop.test:8080"'])
  expect(values('via')).toEqual(['1.0 client-proxy, 1.1 consistent-hash-proxy'])
  expect(await metricOf(gateway.proxy, 'retries_total', { reason: 'connect' })).toBe(1)
})

test('x-forwarded-* of a trusted proxy are kept, and added to', async () => {
  const upstream = await startUpstream('a')
  const gateway = await startGatewayTo([upstream], { trustedProxies: ['loopback'] })
  await call(gateway, {
    headers: { host: 'shop.test', 'x-forwarded-for': '203.0.113.7', 'x-forwarded-proto': 'https' },
  })
  expect(upstream.received[0]?.headers).toMatchObject({
    'x-forwarded-for': '203.0.113.7, 127.0.0.1',
    'x-forwarded-proto': 'https',
    'x-forwarded-port': '443',
  })
})

test('the gateway’s own headers overwrite those of a client', async () => {
  const upstream = await startUpstream('a')
  const gateway = await startGatewayTo([upstream])
  await call(gateway, {
    headers: { 'X-Topology': 'forged', 'x-ring-owner': 'forged', 'x-key-hash': 'forged', 'x-attempt': '9' },
  })
  const raw = upstream.received[0]?.rawHeaders ?? []
  expect(raw.join()).not.toContain('forged')
  expect(valuesOf(raw, 'x-ring-owner')).toEqual(['a'])
  expect(valuesOf(raw, 'x-attempt')).toEqual(['1'])
  expect(valuesOf(raw, 'x-topology')).toHaveLength(1)
  expect(valuesOf(raw, 'x-key-hash')).toHaveLength(1)
})

test('Host is the client’s, or with hostHeader the upstream’s own; a target in absolute form overrules it', async () => {
  const upstream = await startUpstream('a')
  const preserving = await startGatewayTo([upstream])
  const naming = await startGatewayTo([upstream], { hostHeader: 'upstream' })
  await call(preserving, { headers: { host: 'shop.test' } })
  await call(naming, { headers: { host: 'shop.test' } })
  await call(preserving, { path: 'http://real.test:81/x', headers: { host: 'forged.test' } })
  const { host } = new URL(upstream.url)
  expect(upstream.received.map(({ headers }) => headers.host)).toEqual(['shop.test', host, 'real.test:81'])
  expect(upstream.received.map(({ headers }) => headers['x-forwarded-host'])).toEqual([
    'shop.test',
    'shop.test',
    'real.test:81',
  ])
})

test('many Set-Cookies arrive each on its own line, behind those of the application', async () => {
  const cookies = Array.from({ length: 20 }, (_, index) => `c${index}=v, ${index}; Path=/`)
  const upstream = await startUpstream('a', (_, response) => response.setHeader('set-cookie', cookies).end())
  const gateway = await startGatewayTo([upstream], {}, (app) =>
    app.use((_, response, next) => {
      response.setHeader('set-cookie', 'own=1')
      next()
    }),
  )
  const answer = await call(gateway)
  expect(valuesOf(answer.rawHeaders, 'set-cookie')).toEqual(['own=1', ...cookies])
})

test('header values beyond ASCII pass byte for byte', async () => {
  const upstream = await startUpstream('a', (request, response) =>
    response.setHeader('x-echo', request.headers['x-name'] ?? '').end(),
  )
  const gateway = await startGatewayTo([upstream])
  const name = Buffer.from('naïve ✓').toString('latin1')
  expect((await call(gateway, { headers: { 'x-name': name } })).headers['x-echo']).toBe(name)
})
