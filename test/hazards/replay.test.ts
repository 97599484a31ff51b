import { randomBytes } from 'node:crypto'
import { createServer } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { HashRing } from '../../src/index.ts'
import { metricOf } from '../support/metrics.ts'
import { call, startGatewayTo, startRawUpstream } from '../support/raw-http.ts'
import { eventually, keyOwnedBy, startUpstream, startUpstreams } from '../support/servers.ts'
import { RawClient } from '../support/web-sockets.ts'

const megabytes = (count: number) => randomBytes(count * 1_000_000)
const ownedBy = (id: string) => keyOwnedBy(new HashRing([{ id: 'a' }, { id: 'b' }]), id)

test.each([
  ['5 bytes', Buffer.from('12345')],
  ['10 MB, ten times what is kept for replay', megabytes(10)],
])(
  'caddyserver/caddy#5454: a POST of %s to an upstream that refuses arrives whole elsewhere',
  async (_, body) => {
    const [a, b] = await startUpstreams(['a', 'b'])
    if (!a || !b) throw new Error('expected two upstreams')
    const gateway = await startGatewayTo([a, b])
    await a.stop()
    for (const framing of [{ 'content-length': body.length }, { 'transfer-encoding': 'chunked' }]) {
      const headers = { 'x-user-id': ownedBy('a'), ...framing }
      expect(await call(gateway, { method: 'POST', headers, body })).toMatchObject({ status: 200 })
    }
    expect(b.received.map((received) => received.body.equals(body))).toEqual([true, true])
    expect(await metricOf(gateway.proxy, 'retries_total', { reason: 'connect' })).toBe(2)
    expect(gateway.proxy.status().inFlight).toBe(0)
  },
)

test('caddyserver/caddy#5454: a POST of 10 MB whose upstream resets after 1 MB is 502, not retried, and says why', async () => {
  const resetting = createServer((socket) => {
    let received = 0
    socket
      .on('error', () => {})
      .on('data', (bytes) => {
        received += bytes.length
        if (received > 1_000_000) socket.resetAndDestroy()
      })
  })
  onTestFinished(() => {
    resetting.close()
  })
  const [a, b] = await startUpstreams(['a', 'b'])
  if (!a || !b) throw new Error('expected two upstreams')
  await a.stop()
  await new Promise<void>((resolve) => {
    resetting.listen(a.port, '127.0.0.1', resolve)
  })
  const gateway = await startGatewayTo([a, b])
  const headers = { 'x-user-id': ownedBy('a'), 'idempotency-key': '1' }
  for (const [own, reason] of [
    [{ 'x-user-id': ownedBy('a') }, 'not-idempotent'],
    [headers, 'body-consumed'],
  ] as const) {
    const answer = await call(gateway, { method: 'POST', headers: own, body: megabytes(10) })
    expect(answer).toMatchObject({ status: 502, body: Buffer.from('The upstream broke the connection\n') })
    expect(await metricOf(gateway.proxy, 'unretried_failures_total', { reason })).toBe(1)
  }
  expect(b.count).toBe(0)
  expect(await metricOf(gateway.proxy, 'retries_total')).toBeUndefined()
  expect(gateway.proxy.status().inFlight).toBe(0)
})

test('a POST whose upstream cannot even be reached has lost nothing: a route that fails at once is no connection', async () => {
  const b = await startUpstream('b')
  // No packet leaves: the kernel refuses to connect to the broadcast address.
  const gateway = await startGatewayTo([{ id: 'a', url: 'http://255.255.255.255:9' }, b])
  const body = megabytes(1)
  const headers = { 'x-user-id': ownedBy('a') }
  expect(await call(gateway, { method: 'POST', headers, body })).toMatchObject({ status: 200 })
  expect(b.received[0]?.body.equals(body)).toBe(true)
  expect(await metricOf(gateway.proxy, 'retries_total', { reason: 'connect' })).toBe(1)
})

test('a small POST is replayed whole with an Idempotency-Key, and not without', async () => {
  const a = await startRawUpstream('a', (socket) => socket.resetAndDestroy())
  const b = await startUpstream('b')
  const gateway = await startGatewayTo([a, b], { retry: { backoff: { baseMs: 1 } } })
  const plain = { 'x-user-id': ownedBy('a') }
  const body = '12345'
  expect(await call(gateway, { method: 'POST', headers: plain, body })).toMatchObject({ status: 502 })
  expect(b.count).toBe(0)
  const headers = { ...plain, 'idempotency-key': '1' }
  expect(await call(gateway, { method: 'POST', headers, body })).toMatchObject({ status: 200 })
  expect(b.received).toMatchObject([{ method: 'POST', body: Buffer.from(body) }])
  expect(await metricOf(gateway.proxy, 'retries_total', { reason: 'reset' })).toBe(1)
})

test('an upstream that answers before it has the body: its answer arrives, and the client’s next request as well', async () => {
  const upstream = await startUpstream('a', (request, response) => {
    if (request.method === 'POST') response.writeHead(413).end('too much')
    else response.end('next')
  })
  const gateway = await startGatewayTo([upstream])
  const body = megabytes(5)
  const answer = await call(gateway, { method: 'POST', body })
  expect(answer).toMatchObject({ status: 413, body: Buffer.from('too much') })
  expect(await call(gateway)).toMatchObject({ status: 200, body: Buffer.from('next') })
  expect(gateway.proxy.status().inFlight).toBe(0)
})

test('an upstream that answers without reading the body: the client’s connection carries its next request', async () => {
  const upstream = await startRawUpstream('a', (socket, head) => {
    const refused = head.startsWith('POST')
    socket.write(`HTTP/1.1 ${refused ? '413 Too Large' : '200 OK'}\r\nContent-Length: 2\r\n\r\nok`)
    if (refused) socket.pause()
  })
  const gateway = await startGatewayTo([upstream])
  const client = new RawClient(gateway.port)
  const next = 'GET /next HTTP/1.1\r\nHost: gateway.test\r\n\r\n'
  client.send('POST / HTTP/1.1\r\nHost: gateway.test\r\nContent-Length: 20000000\r\n\r\n')
  client.socket.write(Buffer.alloc(20_000_000))
  client.send(next)
  await eventually('both answers', () => client.received.match(/\r\n\r\nok/g)?.length === 2)
  expect(client.received.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 413', 'HTTP/1.1 200'])
  expect(gateway.proxy.status().inFlight).toBe(0)
})

test('a client that reads nothing before it has sent its body still gets our answer whole', async () => {
  const gateway = await startGatewayTo([{ id: 'a', url: 'http://127.0.0.1:1' }])
  const client = new RawClient(gateway.port)
  const errors: unknown[] = []
  client.socket.on('error', (error) => errors.push(error)).pause()
  client.send('POST / HTTP/1.1\r\nHost: gateway.test\r\nContent-Length: 20000000\r\n\r\n')
  await eventually('the refusal', () => metricOf(gateway.proxy, 'requests_total', { outcome: 'failed' }))
  await new Promise((resolve) => client.socket.write(megabytes(20), resolve))
  client.socket.resume()
  await eventually('the end', () => client.ended || client.closed)
  expect(errors).toEqual([])
  expect(client.received).toMatch(/^HTTP\/1.1 503 .*connection: close\r\n.*No upstream could be reached\n$/is)
})

test('a body that the client stops sending is 408, and not the upstream’s failure', async () => {
  const upstream = await startUpstream('a', (request) => request.resume())
  const options = { timeouts: { idleMs: 150 }, circuitBreaker: { consecutiveFailures: 1 } }
  const gateway = await startGatewayTo([upstream], options)
  const client = new RawClient(gateway.port)
  client.send('POST / HTTP/1.1\r\nHost: gateway.test\r\nContent-Length: 10\r\n\r\nfour')
  await eventually('an answer', () => client.received !== '')
  expect(client.received).toMatch(/^HTTP\/1.1 408 /)
  expect(gateway.proxy.status()).toMatchObject({ inFlight: 0, upstreams: [{ breaker: 'closed' }] })
  expect(await metricOf(gateway.proxy, 'ejections_total')).toBeUndefined()
  await eventually('the upstream request to close', () => upstream.active === 0)
  // The gateway lingers for the rest of the body, but not for ever.
  await eventually('the connection to close', () => client.ended || client.closed, 7_000)
})
