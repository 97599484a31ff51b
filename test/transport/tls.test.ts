import { once } from 'node:events'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { selfSigned } from '../support/certificates.ts'
import { metricOf } from '../support/metrics.ts'
import { call, startGatewayTo } from '../support/raw-http.ts'
import { eventually, startUpstream } from '../support/servers.ts'

let local: { cert: string; key: string }
let named: { cert: string; key: string }

beforeAll(() => {
  local = selfSigned('IP:127.0.0.1,DNS:localhost')
  named = selfSigned('DNS:upstream.test')
})

interface TlsUpstream {
  readonly id: string
  readonly url: string
  readonly server: Server
  /** The names that clients asked for, connection by connection; false for none. */
  readonly names: (string | false | null)[]
}

async function startTlsUpstream(
  certificate: { cert: string; key: string },
  host = '127.0.0.1',
): Promise<TlsUpstream> {
  const names: TlsUpstream['names'] = []
  const server = createServer(certificate, (request, response) => {
    request.resume().once('end', () => setTimeout(() => response.end('secret'), 20))
  })
  server.on('secureConnection', (socket: TLSSocket & { servername?: string | false | null }) =>
    names.push(socket.servername ?? null),
  )
  server.on('tlsClientError', () => {})
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { id: 'a', url: `https://${host}:${(server.address() as AddressInfo).port}`, server, names }
}

describe('an https upstream is verified', () => {
  test('by default: a certificate that nobody vouches for is no connection, and sees nothing of the request', async () => {
    const upstream = await startTlsUpstream(local)
    const gateway = await startGatewayTo([upstream])
    expect(await call(gateway, { method: 'POST', body: 'secret' })).toMatchObject({ status: 503 })
    expect(gateway.proxy.status().inFlight).toBe(0)
  })

  test('a POST goes on to the next owner instead', async () => {
    const untrusted = await startTlsUpstream(local)
    const other = await startUpstream('b')
    const gateway = await startGatewayTo([untrusted, other])
    for (let count = 0; count < 10; count += 1)
      expect(
        await call(gateway, { method: 'POST', body: 'x', headers: { 'x-user-id': `${count}` } }),
      ).toMatchObject({
        status: 200,
        body: Buffer.from('b'),
      })
    expect(await metricOf(gateway.proxy, 'retries_total', { reason: 'connect' })).toBeGreaterThan(0)
  })

  test('`ca` makes it trusted', async () => {
    const upstream = await startTlsUpstream(local)
    const gateway = await startGatewayTo([upstream], { upstreamTls: { ca: local.cert } })
    expect(await call(gateway)).toMatchObject({ status: 200, body: Buffer.from('secret') })
    expect(upstream.names).toEqual([false])
  })

  test('another name than the URL’s is refused, unless `servername` says so', async () => {
    const upstream = await startTlsUpstream(named)
    const strict = await startGatewayTo([upstream], { upstreamTls: { ca: named.cert } })
    expect(await call(strict)).toMatchObject({ status: 503 })
    const told = await startGatewayTo([upstream], {
      upstreamTls: { ca: named.cert, servername: 'upstream.test' },
    })
    expect(await call(told)).toMatchObject({ status: 200 })
    expect(upstream.names.at(-1)).toBe('upstream.test')
  })

  test('by the name in its URL, never by the Host that a client sends', async () => {
    const upstream = await startTlsUpstream(local, 'localhost')
    const gateway = await startGatewayTo([upstream], { upstreamTls: { ca: local.cert } })
    for (const host of ['shop.test', 'evil.test', 'localhost:1'])
      expect(await call(gateway, { headers: { host } })).toMatchObject({ status: 200 })
    // One connection carried them all: a client cannot open pools of its own.
    expect(upstream.names).toEqual(['localhost'])
    const elsewhere = await startTlsUpstream(named, 'localhost')
    const fooled = await startGatewayTo([elsewhere], { upstreamTls: { ca: named.cert } })
    expect(await call(fooled, { headers: { host: 'upstream.test' } })).toMatchObject({ status: 503 })
  })
})

test('over TLS as well, requests that wait for the one connection are carried by it in turn', async () => {
  const upstream = await startTlsUpstream(local)
  const gateway = await startGatewayTo([upstream], {
    upstreamTls: { ca: local.cert },
    limits: { connectionsPerUpstream: 1 },
    timeouts: { connectMs: 500 },
  })
  const answers = await Promise.all([1, 2, 3, 4].map(() => call(gateway, { method: 'PUT', body: 'x' })))
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200])
  expect(upstream.names).toHaveLength(1)
})

test('a client that leaves during the TLS handshake takes the connection along', async () => {
  const upstream = await startTlsUpstream(local)
  let connections = 0
  upstream.server.on('connection', (socket) => {
    connections += 1
    socket.once('close', () => {
      connections -= 1
    })
  })
  const gateway = await startGatewayTo([upstream], { upstreamTls: { ca: local.cert } })
  for (let count = 0; count < 5; count += 1) {
    const leaving = call(gateway).catch(() => {})
    const [socket] = await once(gateway.server, 'connection')
    await eventually('the choice', () => gateway.proxy.status().inFlight === 1)
    socket.destroy()
    await leaving
    await eventually('the slot', () => gateway.proxy.status().inFlight === 0)
  }
  expect(await call(gateway)).toMatchObject({ status: 200 })
  await eventually('the other connections to close', () => connections === 1)
})
