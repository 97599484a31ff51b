import { describe, expect, test } from 'vitest'
import { metricOf } from '../support/metrics.ts'
import { call, startGatewayTo, startRawUpstream } from '../support/raw-http.ts'
import { eventually, startUpstream } from '../support/servers.ts'
import { testedTransport } from '../support/transport.ts'
import { RawClient } from '../support/web-sockets.ts'

/** An upstream that gives every request this raw answer, and ends the connection if `end`. */
const answering = (lines: string, end = false) =>
  startRawUpstream('a', (socket) => {
    socket.write(lines, 'latin1')
    if (end) socket.end()
  })

const get = 'GET / HTTP/1.1\r\nHost: gateway.test\r\n\r\n'

describe('an answer without a body', () => {
  test.each([
    ['GET', 304],
    ['GET', 204],
    ['HEAD', 200],
  ])('%s %i with Content-Length ends with its head, and the connection goes on', async (method, status) => {
    const upstream = await answering(`HTTP/1.1 ${status} Fine\r\nContent-Length: 1234\r\nETag: "x"\r\n\r\n`)
    const gateway = await startGatewayTo([upstream])
    const client = new RawClient(gateway.port)
    for (const count of [1, 2]) {
      client.send(`${method} / HTTP/1.1\r\nHost: gateway.test\r\n\r\n`)
      await eventually('the answer', () => client.received.split('\r\n\r\n').length === count + 1)
    }
    const answers = client.received.split('\r\n\r\n')
    expect(answers[0]).toMatch(new RegExp(`^HTTP/1.1 ${status} Fine\r\n`))
    expect(answers[0]).toMatch(/content-length: 1234/i)
    expect(answers[0]).not.toMatch(/transfer-encoding/i)
    expect(answers[2]).toBe('')
    expect(client.ended).toBe(false)
    expect(gateway.proxy.status().inFlight).toBe(0)
    // Both came on one connection: the pool got it back. Undici misses the body that the length speaks of, and closes.
    const isMissed = testedTransport === 'undici' && method === 'GET'
    expect(upstream.received).toHaveLength(isMissed ? 2 : 1)
  })
})

test('trailers go both ways, without those that belong into a head', async () => {
  const upstream = await startUpstream('a', (request, response) => {
    request.resume().once('end', () => {
      response.writeHead(200, { trailer: 'x-sum, x-topology' })
      response.write('body')
      response.addTrailers([
        ['X-Sum', `${request.trailers['x-sum']}`],
        ['X-Seen', Object.keys(request.trailers).join()],
        ['X-Topology', 'forged'],
        ['Set-Cookie', 'a=1'],
      ])
      response.end()
    })
  })
  const gateway = await startGatewayTo([upstream])
  const client = new RawClient(gateway.port)
  client.send(
    'POST / HTTP/1.1\r\nHost: gateway.test\r\nTE: trailers\r\nTrailer: x-sum\r\nTransfer-Encoding: chunked\r\n\r\n' +
      '2\r\nhi\r\n0\r\nX-Sum: 42\r\nX-Key-Hash: forged\r\nX-Forwarded-For: 6.6.6.6\r\nCookie: a=1\r\n\r\n',
  )
  await eventually('the end', () => /\r\n0\r\n(.*\r\n)*\r\n$/.test(client.received))
  expect(client.body).toMatch(/^4\r\nbody\r\n0\r\nX-Sum: 42\r\nX-Seen: x-sum\r\n\r\n$/)
})

describe('early hints', () => {
  const hints =
    'HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload; as=style, </b.js>; rel=preload\r\nLink: </c>; rel=next\r\n\r\n' +
    'HTTP/1.1 102 Processing\r\n\r\n'
  const final = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

  test('reach the client before the answer', async () => {
    const gateway = await startGatewayTo([await answering(hints + final)])
    const answer = await call(gateway)
    expect(answer.hints).toEqual(['</a.css>; rel=preload; as=style, </b.js>; rel=preload, </c>; rel=next'])
    expect(answer).toMatchObject({ status: 200, body: Buffer.from('ok') })
  })

  test('that Node refuses to write are left out, and so are all for HTTP/1.0', async () => {
    const odd = 'HTTP/1.1 103 Early Hints\r\nLink: /no/brackets\r\n\r\n'
    expect(await call(await startGatewayTo([await answering(odd + final)]))).toMatchObject({
      status: 200,
      hints: [],
    })
    const gateway = await startGatewayTo([await answering(hints + final)])
    const client = new RawClient(gateway.port).send('GET / HTTP/1.0\r\n\r\n')
    await eventually('the end', () => client.ended)
    expect(client.received).toMatch(/^HTTP\/1.1 200 OK\r\n/)
  })
})

test('an unsolicited 101 is an upstream that broke: 502 at once', async () => {
  const upstream = await answering(
    'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n',
  )
  const gateway = await startGatewayTo([upstream])
  expect(await call(gateway)).toMatchObject({ status: 502 })
  expect(gateway.proxy.status()).toMatchObject({ inFlight: 0 })
  await eventually('the upstream connection to close', () => upstream.sockets.size === 0)
})

test.each([
  ['headers over 16 KiB', `HTTP/1.1 200 OK\r\nX-Pad: ${'p'.repeat(17_000)}\r\n\r\n`],
  [
    'both ways of framing',
    'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
  ],
  ['two lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc'],
  ['no HTTP', 'SSH-2.0-OpenSSH_9.2\r\n\r\n'],
  ['a status below 100', 'HTTP/1.1 099 Odd\r\nContent-Length: 2\r\n\r\nok'],
  ['status 000', 'HTTP/1.1 000 Odd\r\nContent-Length: 2\r\n\r\nok'],
])('an answer with %s is 502, never passed on', async (_, lines) => {
  const upstream = await answering(lines)
  const gateway = await startGatewayTo([upstream])
  const answer = await call(gateway, { headers: { accept: 'application/json' } })
  expect(answer).toMatchObject({ status: 502 })
  expect(JSON.parse(answer.body.toString())).toEqual({
    error: { code: 'UPSTREAM_RESET', message: 'The upstream broke the connection' },
  })
  expect(await metricOf(gateway.proxy, 'requests_total', { outcome: 'failed', status_class: '5xx' })).toBe(1)
  expect(gateway.proxy.status()).toMatchObject({ inFlight: 0 })
  await eventually('the upstream connection to close', () => upstream.sockets.size === 0)
})

test.each([
  ['HTTP/1.1 200 Na\x01ughty', 200, 'OK'],
  ['HTTP/1.1 200 N\xc3\xa3o', 200, 'N\xc3\xa3o'],
  ['HTTP/1.1 299 Custom Words', 299, 'Custom Words'],
  ['HTTP/1.1 999 Odd', 999, 'Odd'],
  ['HTTP/1.1 204 ', 204, 'No Content'],
])('the status line %j passes, or as much of it as may be written', async (line, status, statusText) => {
  const gateway = await startGatewayTo([await answering(`${line}\r\nContent-Length: 0\r\n\r\n`)])
  expect(await call(gateway)).toMatchObject({ status, statusText })
})

describe('server-sent events', () => {
  test('the head is sent before there is a body, and each event as it comes', async () => {
    let send: (event: string) => void = () => {}
    const upstream = await startUpstream('a', (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
      send = (event) => response.write(`data: ${event}\n\n`)
    })
    const gateway = await startGatewayTo([upstream])
    const client = new RawClient(gateway.port).send(get)
    await eventually('the head', () => client.received.includes('\r\n\r\n'))
    expect(client.head).toMatch(/text\/event-stream/)
    for (const event of ['first', 'second']) {
      expect(client.body).not.toContain(event)
      send(event)
      await eventually(`the ${event} event`, () => client.body.includes(`data: ${event}\n\n`))
    }
    expect(gateway.proxy.status()).toMatchObject({ inFlight: 1 })
    client.socket.destroy()
    await eventually('the slot', () => gateway.proxy.status().inFlight === 0)
    await eventually('the upstream request to close', () => upstream.active === 0)
  })

  test('longLived ones never enter the load', async () => {
    const upstream = await startUpstream('a', (_, response) => response.writeHead(200).flushHeaders())
    const gateway = await startGatewayTo([upstream], { longLived: ({ url }) => url === '/' })
    const client = new RawClient(gateway.port).send(get)
    await eventually('the head', () => client.received.includes('\r\n\r\n'))
    expect(gateway.proxy.status()).toMatchObject({ inFlight: 0, upstreams: [{ longLived: 1 }] })
    client.socket.destroy()
    await eventually('the slot', () => gateway.proxy.status().upstreams[0]?.longLived === 0)
  })
})

test('an upstream that ends its answer with the connection is passed on whole, to HTTP/1.0 too', async () => {
  const upstream = await answering('HTTP/1.0 200 OK\r\n\r\nold server', true)
  const gateway = await startGatewayTo([upstream])
  expect((await call(gateway)).body.toString()).toBe('old server')
  const client = new RawClient(gateway.port).send('GET / HTTP/1.0\r\n\r\n')
  await eventually('the end', () => client.ended)
  expect(client.body).toBe('old server')
})

test('no listener of any kind is needed: an upstream error ends neither process nor server', async () => {
  const upstream = await startRawUpstream('a', (socket) => socket.resetAndDestroy())
  const gateway = await startGatewayTo([upstream])
  for (let count = 0; count < 3; count += 1) expect(await call(gateway)).toMatchObject({ status: 502 })
})
