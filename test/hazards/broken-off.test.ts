import { describe, expect, test } from 'vitest'
import { metricOf } from '../support/metrics.ts'
import { type RawUpstream, startGatewayTo, startRawUpstream } from '../support/raw-http.ts'
import { eventually, type TestGateway } from '../support/servers.ts'
import { RawClient } from '../support/web-sockets.ts'

const get = 'GET / HTTP/1.1\r\nHost: gateway.test\r\n\r\n'
const unbounded = { headers: 'X-Framing: none\r\n', body: 'part of' }

/** The gateway holds nothing of the request any more: no slot, no failure, no connection to the upstream. */
async function expectForgotten(gateway: TestGateway, upstream: RawUpstream): Promise<void> {
  await eventually('the upstream connection to close', () => upstream.sockets.size === 0, 1_000)
  await eventually('the slot', () => gateway.proxy.status().inFlight === 0)
  await eventually('the end of the request', async () =>
    metricOf(gateway.proxy, 'requests_total', { outcome: 'client-gone' }),
  )
  expect(gateway.proxy.status().upstreams).toMatchObject([{ inFlight: 0, breaker: 'closed' }])
  expect(await metricOf(gateway.proxy, 'requests_total')).toBe(1)
  expect(await metricOf(gateway.proxy, 'ejections_total')).toBeUndefined()
}

/** One failure would eject. */
const nervous = { circuitBreaker: { consecutiveFailures: 1, maxEjectionPercent: 100 } }

describe('a client that leaves cancels the upstream request at once, and is nobody’s failure', () => {
  test.each([
    ['while it waits for the head', get, 'GET /', ''],
    [
      'while it sends a body of known length',
      get.replace('GET', 'POST').replace('\r\n\r\n', '\r\nContent-Length: 9\r\n\r\nfour'),
      'four',
      '',
    ],
    [
      'while it sends a chunked body',
      get.replace('GET', 'POST').replace('\r\n\r\n', '\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour\r\n'),
      'four',
      '',
    ],
    ['before the body’s first byte', get, 'GET /', 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n'],
    ['within the body', get, 'GET /', 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfour'],
    [
      'within a chunked body',
      get,
      'GET /',
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour\r\n',
    ],
    ['within a body that the connection ends', get, 'GET /', 'HTTP/1.1 200 OK\r\n\r\nfour'],
  ])('%s', async (_, sent, arriving, answered) => {
    const upstream = await startRawUpstream('a', (socket) => socket.write(answered))
    const gateway = await startGatewayTo([upstream], nervous)
    const client = new RawClient(gateway.port).send(sent)
    await eventually('the upstream to have it', () => upstream.received.join().includes(arriving))
    if (answered) await eventually('the answer', () => client.received.includes('200 OK'))
    expect(gateway.proxy.status().inFlight).toBe(1)
    client.socket.destroy()
    await expectForgotten(gateway, upstream)
  })

  test('while it waits for a free connection', async () => {
    const upstream = await startRawUpstream('a', () => {})
    const gateway = await startGatewayTo([upstream], { limits: { connectionsPerUpstream: 1 } })
    const first = new RawClient(gateway.port).send(get)
    await eventually('the first request', () => upstream.heads.length === 1)
    const second = new RawClient(gateway.port).send(get)
    await eventually('the second request', () => gateway.proxy.status().inFlight === 2)
    second.socket.destroy()
    await eventually('the slot of the second', () => gateway.proxy.status().inFlight === 1)
    for (const socket of upstream.sockets) socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
    await eventually('the first answer', () => first.received.endsWith('ok'))
    expect(upstream.heads).toHaveLength(1)
    // The connection that nobody waits for any more still serves.
    const third = new RawClient(gateway.port).send(get)
    await eventually('the third request', () => upstream.heads.length === 2)
    for (const socket of upstream.sockets) socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
    await eventually('the third answer', () => third.received.endsWith('ok'))
    expect(upstream.received).toHaveLength(1)
  })
})

describe('an upstream that breaks off within its answer breaks the client’s connection', () => {
  const framings = {
    'Content-Length': { headers: 'Content-Length: 100\r\n', body: 'part of' },
    chunked: { headers: 'Transfer-Encoding: chunked\r\n', body: '7\r\npart of\r\n' },
  }
  const cases = Object.entries(framings).flatMap(([name, framing]) =>
    (['FIN', 'RST'] as const).map((how) => [how, name, framing] as const),
  )

  test.each(cases)('%s, %s: the client gets no end of the body', async (how, name, { headers, body }) => {
    const upstream = await startRawUpstream('a', (socket) => {
      socket.write(`HTTP/1.1 200 OK\r\n${headers}\r\n${body}`)
    })
    const gateway = await startGatewayTo([upstream])
    const client = new RawClient(gateway.port).send(get)
    await eventually('the beginning', () => client.received.includes('part of'))
    for (const socket of upstream.sockets) how === 'FIN' ? socket.end() : socket.resetAndDestroy()
    await eventually('the end of the connection', () => client.ended || client.closed, 1_000)
    expect(client.received).toMatch(
      name === 'chunked' ? /transfer-encoding: chunked/i : /content-length: 100/i,
    )
    expect(client.body).toMatch(/part of(\r\n)?$/)
    await eventually('the slot', () => gateway.proxy.status().inFlight === 0)
    await eventually('the end of the request', () =>
      metricOf(gateway.proxy, 'requests_total', { outcome: 'broken', upstream: 'a', status_class: '2xx' }),
    )
  })

  test('a client of HTTP/1.0, for whom the end of the connection ends the body, sees it reset', async () => {
    const upstream = await startRawUpstream('a', (socket) => {
      socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\npart of\r\n')
    })
    const gateway = await startGatewayTo([upstream])
    const client = new RawClient(gateway.port).send('GET / HTTP/1.0\r\n\r\n')
    const errors: unknown[] = []
    client.socket.on('error', (error) => errors.push(error))
    await eventually('the beginning', () => client.received.includes('part of'))
    for (const socket of upstream.sockets) socket.end()
    await eventually('the end of the connection', () => client.ended || client.closed)
    expect(client.ended).toBe(false)
    expect(errors).toMatchObject([{ code: 'ECONNRESET' }])
  })

  test('a reset within a body that only the connection ends is passed on as what it is', async () => {
    const upstream = await startRawUpstream('a', (socket) => {
      socket.write(`HTTP/1.1 200 OK\r\n${unbounded.headers}\r\n${unbounded.body}`)
    })
    const gateway = await startGatewayTo([upstream])
    const client = new RawClient(gateway.port).send(get)
    await eventually('the beginning', () => client.received.includes('part of'))
    for (const socket of upstream.sockets) socket.resetAndDestroy()
    await eventually('the end of the connection', () => client.ended || client.closed)
    expect(client.received).toMatch(/transfer-encoding: chunked/i)
    expect(client.received).not.toMatch(/0\r\n\r\n$/)
  })

  test('it counts as a failure of the upstream', async () => {
    const upstream = await startRawUpstream('a', (socket) => {
      socket.end('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart of')
    })
    const other = await startRawUpstream('b', (socket) => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
    })
    const gateway = await startGatewayTo([upstream, other], nervous)
    await eventually('an ejection', async () => {
      const client = new RawClient(gateway.port).send(get)
      await eventually('the end', () => client.ended || client.closed || client.received.endsWith('ok'))
      return gateway.proxy.status().upstreams[0]?.breaker === 'open'
    })
    expect(await metricOf(gateway.proxy, 'ejections_total', { upstream: 'a', cause: 'answers' })).toBe(1)
  })
})

test('a client that takes nothing for idleMs is let go, and the upstream is not to blame', async () => {
  const upstream = await startRawUpstream('a', (socket) => {
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n')
    const more = () => {
      while (socket.writable && socket.write('x'.repeat(65_536))) {}
    }
    socket.on('drain', more)
    more()
  })
  const gateway = await startGatewayTo([upstream], { ...nervous, timeouts: { idleMs: 300 } })
  const client = new RawClient(gateway.port).send(get)
  await eventually('the beginning', () => client.received.includes('xxx'))
  client.socket.pause()
  await expectForgotten(gateway, upstream)
})
