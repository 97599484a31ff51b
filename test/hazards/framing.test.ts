import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { consistentHashProxy, staticTopology } from '../../src/index.ts'
import { metricOf } from '../support/metrics.ts'
import { startGatewayTo, startRawUpstream } from '../support/raw-http.ts'
import { eventually, startUpstream, type TestUpstream } from '../support/servers.ts'
import { RawClient } from '../support/web-sockets.ts'

/** Sends raw lines and waits for an answer. */
async function speak(port: number, text: string): Promise<RawClient> {
  const client = new RawClient(port)
  client.socket.write(text, 'latin1')
  await eventually('an answer', () => client.received !== '' || client.ended || client.closed)
  return client
}

/** A bare proxy behind a server that was told to be lenient. */
async function startLenientGateway(upstream: TestUpstream): Promise<number> {
  const topology = staticTopology([{ id: 'a', url: upstream.url }])
  const proxy = consistentHashProxy({ key: 'header:x-user-id', topology })
  const server = createServer({ insecureHTTPParser: true }, proxy).listen(0, '127.0.0.1')
  onTestFinished(async () => {
    server.closeAllConnections()
    server.close()
    await proxy.close()
  })
  await Promise.all([once(server, 'listening'), proxy.ready()])
  return (server.address() as AddressInfo).port
}

const forged = 'GET /forged HTTP/1.1\r\nHost: gateway.test\r\nX-User-Id: victim\r\n\r\n'
const chunked = (body: string) => `${Buffer.byteLength(body).toString(16)}\r\n${body}\r\n0\r\n\r\n`

test.each(['DELETE', 'OPTIONS', 'GET', 'HEAD'])(
  'a request inside the chunked body of %s stays a body: the upstream executes one request',
  async (method) => {
    const upstream = await startUpstream('a')
    const gateway = await startGatewayTo([upstream])
    const head = `${method} /outer HTTP/1.1\r\nHost: gateway.test\r\nX-User-Id: 1\r\n`
    // Behind it a second request of the same client: what was smuggled would be answered in its place.
    await speak(gateway.port, `${head}Transfer-Encoding: chunked\r\n\r\n${chunked(forged)}`)
    await speak(gateway.port, 'GET /second HTTP/1.1\r\nHost: gateway.test\r\n\r\n')
    expect(upstream.received.map(({ method, url, body }) => [method, url, body.toString()])).toEqual([
      [method, '/outer', forged],
      ['GET', '/second', ''],
    ])
    expect(await metricOf(gateway.proxy, 'requests_total')).toBe(2)
  },
)

const ambiguous: readonly [string, string, number][] = [
  ['Content-Length and Transfer-Encoding', 'Content-Length: 5\r\nTransfer-Encoding: chunked\r\n', 400],
  ['two lengths that differ', 'Content-Length: 5\r\nContent-Length: 6\r\n', 400],
  ['a length that is none', 'Content-Length: +5\r\n', 400],
  ['chunked twice', 'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n', 400],
  ['chunked not last', 'Transfer-Encoding: chunked, identity\r\n', 400],
  ['an unknown coding', 'Transfer-Encoding: xchunked\r\n', 400],
  ['two hosts', 'Host: other.test\r\n', 400],
  ['a name with a space', 'Transfer-Encoding : chunked\r\n', 400],
]

test.each(ambiguous)('ambiguous framing, %s: refused by a strict server', async (_, lines, status) => {
  const upstream = await startUpstream('a')
  const gateway = await startGatewayTo([upstream])
  const { received } = await speak(
    gateway.port,
    `POST / HTTP/1.1\r\nHost: gateway.test\r\n${lines}\r\n${chunked(forged)}`,
  )
  expect(received).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
  expect(upstream.count).toBe(0)
})

test.each([...ambiguous, ['a control character', 'X-Note: a\x01b\r\n', 400] as const])(
  'cloudflare/pingora#734: ambiguous framing, %s: never reaches an upstream through a lenient server',
  async (_, lines) => {
    const upstream = await startUpstream('a')
    const port = await startLenientGateway(upstream)
    const client = await speak(
      port,
      `POST / HTTP/1.1\r\nHost: gateway.test\r\n${lines}\r\n${chunked(forged)}`,
    )
    expect(client.received).toMatch(/^HTTP\/1.1 400 /)
    await eventually('the end of the connection', () => client.ended || client.closed)
    expect(client.received.match(/HTTP\/1\.1 /g)).toHaveLength(1)
    expect(upstream.count).toBe(0)
  },
)

test('a trailer that a lenient server lets in neither ends the process nor goes on', async () => {
  const upstream = await startUpstream('a')
  const port = await startLenientGateway(upstream)
  const head = 'POST / HTTP/1.1\r\nHost: gateway.test\r\nTransfer-Encoding: chunked\r\n\r\n'
  const { received } = await speak(port, `${head}2\r\nhi\r\n0\r\nX-Sum: a\x01b\r\n\r\n`)
  expect(received).toMatch(/^HTTP\/1.1 200 /)
  expect(upstream.received).toMatchObject([{ body: Buffer.from('hi') }])
})

test('request headers over the limit are answered 431, up to it they pass', async () => {
  const upstream = await startUpstream('a')
  const gateway = await startGatewayTo([upstream], { limits: { requestHeaderBytes: 1_000 } })
  // `Host: gateway.test` and `X-Pad: …` with their line ends.
  const padded = (total: number) =>
    `GET / HTTP/1.1\r\nHost: gateway.test\r\nX-Pad: ${'p'.repeat(total - 20 - 9)}\r\n\r\n`
  expect((await speak(gateway.port, padded(1_001))).received).toMatch(/^HTTP\/1.1 431 /)
  expect(upstream.count).toBe(0)
  expect((await speak(gateway.port, padded(1_000))).received).toMatch(/^HTTP\/1.1 200 /)
  expect(await metricOf(gateway.proxy, 'requests_total', { outcome: 'failed' })).toBe(1)
})

test('request headers over 16 KiB, the default, are answered 431', async () => {
  const upstream = await startUpstream('a')
  const gateway = await startGatewayTo([upstream])
  const { received } = await speak(
    gateway.port,
    `GET / HTTP/1.1\r\nHost: gateway.test\r\nX-Pad: ${'p'.repeat(17_000)}\r\n\r\n`,
  )
  expect(received).toMatch(/^HTTP\/1.1 431 /)
  expect(upstream.count).toBe(0)
})

test('Expect: 100-continue is answered here; the body arrives, and so do our headers, not forged ones', async () => {
  const upstream = await startRawUpstream('a', (socket) =>
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'),
  )
  const gateway = await startGatewayTo([upstream], {
    onRequest: ({ headers }) => Object.assign(headers, { 'x-hook': 'set', expect: '100-continue' }),
  })
  const client = new RawClient(gateway.port)
  client.send(
    'POST //exact HTTP/1.1\r\nHost: gateway.test\r\nExpect: 100-continue\r\nContent-Length: 4\r\nX-User-Id: 7\r\n' +
      'X-Topology: forged\r\nX-Key-Hash: forged\r\nX-Ring-Owner: forged\r\nX-Attempt: 99\r\n\r\n',
  )
  await eventually('100', () => client.received.startsWith('HTTP/1.1 100 Continue\r\n\r\n'))
  client.send('body')
  await eventually('the answer', () => client.received.endsWith('ok'))
  const [received = ''] = upstream.received
  expect(received).toMatch(/^POST \/\/exact HTTP\/1.1\r\n/)
  expect(received).toMatch(/\r\n\r\nbody$/)
  expect(received).not.toMatch(/forged|x-attempt: 99|expect/i)
  expect(received).toMatch(/x-hook: set\r\n/i)
  for (const name of ['x-topology', 'x-key-hash', 'x-ring-owner', 'x-attempt', 'x-user-id: 7'])
    expect(received.toLowerCase().split(name)).toHaveLength(2)
})
