import { once } from 'node:events'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { connect } from 'node:tls'
import { expect, onTestFinished, test } from 'vitest'
import { staticTopology } from '../../src/index.ts'
import { selfSigned } from '../support/certificates.ts'
import { eventually, startUpstream } from '../support/servers.ts'
import { RawClient, startSocketGateway } from '../support/web-sockets.ts'

// What curl and Java's client send with every request, lest the server speak HTTP/2.
const offer = 'Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n'
const get = (connection = 'Upgrade, HTTP2-Settings') =>
  `GET /x HTTP/1.1\r\nHost: gateway.test\r\nConnection: ${connection}\r\n${offer}X-Tenant: ü\r\n\r\n`
const post = (body: string, framing: string) =>
  `POST /y HTTP/1.1\r\nHost: gateway.test\r\nConnection: Upgrade, HTTP2-Settings\r\n${offer}${framing}\r\n\r\n${body}`

async function start() {
  const upstream = await startUpstream('a')
  let passed = 0
  const gateway = await startSocketGateway({ key: 'ip', topology: staticTopology([upstream.url]) }, (app) =>
    app.use((_request, _response, next) => {
      passed += 1
      next()
    }),
  )
  return { upstream, gateway, passed: () => passed }
}

const answers = ({ received }: { received: string }) => received.match(/HTTP\/1\.1 200 OK/g)?.length ?? 0

test('a request that offers another protocol is served as if it had not: through the application, body and all', async () => {
  const { upstream, gateway, passed } = await start()
  const client = new RawClient(gateway.port).send(get())
  await eventually('the first answer', () => answers(client) === 1)
  const [long, chunk] = ['x'.repeat(300_000), 'y'.repeat(20_000)]
  client.send(post(long, `Content-Length: ${long.length}`))
  await eventually('the second answer', () => answers(client) === 2)
  client.send(post(`4e20\r\n${chunk}\r\n0\r\n\r\n`, 'Transfer-Encoding: chunked'))
  await eventually('the third answer', () => answers(client) === 3)
  client.send(get('close, Upgrade, HTTP2-Settings'))
  await eventually('the end', () => client.ended)
  expect(answers(client)).toBe(4)
  expect(passed()).toBe(4)
  const seen = upstream.received.map(({ method, url, body }) => [method, url, body.toString()])
  expect(seen).toEqual([
    ['GET', '/x', ''],
    ['POST', '/y', long],
    ['POST', '/y', chunk],
    ['GET', '/x', ''],
  ])
  for (const { headers } of upstream.received) {
    expect(headers).not.toHaveProperty('upgrade')
    expect(headers).not.toHaveProperty('http2-settings')
  }
  expect(upstream.received[0]?.headers['x-tenant']).toBe('\xc3\xbc') // its UTF-8, byte for byte
})

test('a connection that makes the offer again and again gathers no listeners', async () => {
  const { gateway } = await start()
  let listeners = () => 0
  gateway.server.once('connection', (socket) => {
    listeners = () => socket.eventNames().reduce((sum, name) => sum + socket.listenerCount(name), 0)
  })
  const client = new RawClient(gateway.port)
  const counts: number[] = []
  for (let asked = 1; asked <= 20; asked += 1) {
    client.send(get())
    await eventually('the answer', () => answers(client) === asked)
    counts.push(listeners())
  }
  expect(new Set(counts.slice(1)).size).toBe(1)
})

test('behind TLS as well', async () => {
  const { gateway } = await start()
  const server = createTlsServer(selfSigned('DNS:gateway.test'), gateway.app)
  server.on('upgrade', gateway.proxy.upgrade).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo
  const client = connect({ port, host: '127.0.0.1', rejectUnauthorized: false }).setEncoding('latin1')
  onTestFinished(() => void client.destroy())
  client.write(get('close, Upgrade'))
  const [answer] = await once(client, 'data')
  expect(answer).toMatch(/^HTTP\/1.1 200 OK\r\n/)
})

test('called by hand, without the server that could take it back, it is refused', async () => {
  const { gateway } = await start()
  gateway.server.removeAllListeners('upgrade')
  gateway.server.on('upgrade', (...upgrade) => gateway.proxy.upgrade(...upgrade))
  const client = new RawClient(gateway.port).send(get())
  await eventually('the end', () => client.ended)
  expect(client.head).toMatch(/^HTTP\/1.1 400 Bad Request\r\n/)
})
