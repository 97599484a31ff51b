import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { WebSocket } from 'ws'
import { type ConsistentHashProxyOptions, staticTopology } from '../../src/index.ts'
import { startRawUpstream } from '../support/raw-http.ts'
import { eventually, type Handler, startUpstream, type TestGateway } from '../support/servers.ts'
import {
  connectionsOf,
  openSocket,
  RawClient,
  startSocketGateway,
  startSocketUpstream,
  upgradeRequest,
} from '../support/web-sockets.ts'

const startGatewayTo = (url: string, options: Partial<ConsistentHashProxyOptions> = {}) =>
  startSocketGateway({ key: 'path', topology: staticTopology([{ id: 'a', url }]), ...options })

/** Nothing is left of a request: no slot, no connection; and the next request is served. */
async function expectQuiet(gateway: TestGateway, milliseconds = 5_000): Promise<void> {
  const isFree = () =>
    gateway.proxy.status().upstreams.every(({ inFlight, longLived }) => inFlight + longLived === 0)
  await eventually('no slot', isFree, milliseconds)
  await eventually('no connection', async () => (await connectionsOf(gateway)) === 0, milliseconds)
}

const notFound: Handler = (_request, response) => {
  response.writeHead(404, { 'content-type': 'text/plain', 'x-reason': 'no such room', 'x-topology': 'id=x' })
  response.write('no ')
  response.end('room')
}

describe('http-party/node-http-proxy#1468, sagemathinc/http-proxy-3#5, vercel-labs/portless#111', () => {
  test('an upgrade answered 404: status line, headers, body, and a closed socket', async () => {
    const upstream = await startUpstream('a', notFound)
    upstream.server.on('upgrade', (request, socket) => {
      socket.end(
        'HTTP/1.1 404 No Such Room\r\nContent-Type: text/plain\r\nX-Reason: unknown\r\nX-Topology: id=x\r\n' +
          'Keep-Alive: timeout=9\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 7\r\n\r\nno room',
      )
      request.resume()
    })
    const gateway = await startGatewayTo(upstream.url, { exposeUpstreamId: true })
    const client = new RawClient(gateway.port).send(upgradeRequest())
    await eventually('the end', () => client.ended)
    client.socket.end()
    expect(client.head.split('\r\n')).toEqual([
      'HTTP/1.1 404 No Such Room',
      'Content-Type: text/plain',
      'X-Reason: unknown',
      'Set-Cookie: a=1',
      'Set-Cookie: b=2',
      'Content-Length: 7',
      'x-upstream-id: a',
      'connection: close',
    ])
    expect(client.body).toBe('no room')
    await expectQuiet(gateway)
    expect(await gateway.proxy.metrics?.metrics()).toContain(
      'requests_total{upstream="a",status_class="4xx",outcome="answered"} 1',
    )
  })

  test.each([
    ['ends its side then', 1_000],
    ['never does', 5_000],
  ])('a refusal in chunks arrives whole, at a client that sends on and %s', async (then, milliseconds) => {
    const upstream = await startUpstream('a', notFound)
    const gateway = await startGatewayTo(upstream.url)
    const client = new RawClient(gateway.port)
    client.socket.write(`${upgradeRequest()}${'f'.repeat(200_000)}`)
    await eventually('the end', () => client.ended)
    expect(client.head).toMatch(/^HTTP\/1.1 404 Not Found\r\n/)
    expect(client.body).toBe('no room')
    if (then !== 'never does') client.socket.end()
    await expectQuiet(gateway, milliseconds)
  })

  test('a client that stays behind its refusal does not outlast close()', async () => {
    const upstream = await startUpstream('a', notFound)
    const gateway = await startGatewayTo(upstream.url, { timeouts: { drainMs: 50 } })
    const client = new RawClient(gateway.port).send(upgradeRequest())
    await eventually('the end', () => client.ended)
    await gateway.proxy.close()
    await expectQuiet(gateway, 1_000)
  })

  test('a refusal cut short breaks the connection and counts against the upstream', async () => {
    const raw = await startRawUpstream('a', (socket) => {
      socket.write('HTTP/1.1 503 Busy\r\nContent-Length: 100\r\n\r\nhalf')
      setImmediate(() => socket.resetAndDestroy())
    })
    const gateway = await startGatewayTo(raw.url, {
      circuitBreaker: { statuses: [], consecutiveFailures: 1 },
    })
    const client = new RawClient(gateway.port).send(upgradeRequest())
    await eventually('a broken connection', () => client.closed || client.ended)
    client.socket.end()
    expect(client.body.length).toBeLessThan(100)
    await expectQuiet(gateway)
    expect(gateway.proxy.status().upstreams[0]?.breaker).toBe('open')
    expect(await gateway.proxy.metrics?.metrics()).toContain('outcome="broken"} 1')
  })

  test('a refusal whose body stalls is given up after the idle time', async () => {
    const raw = await startRawUpstream('a', (socket) => {
      socket.write('HTTP/1.1 403 Forbidden\r\nContent-Length: 100\r\n\r\nhalf')
    })
    const gateway = await startGatewayTo(raw.url, { timeouts: { idleMs: 100 } })
    const client = new RawClient(gateway.port).send(upgradeRequest())
    await eventually('a broken connection', () => client.closed || client.ended)
    client.socket.end()
    await expectQuiet(gateway)
    expect(await gateway.proxy.metrics?.metrics()).toContain('outcome="broken"} 1')
  })

  test('the upstream resets in the middle of a frame', async () => {
    const raw = await startRawUpstream('a', (socket) => {
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
      socket.write('\x81\x7ehalf a frame', 'latin1', () =>
        socket.once('data', () => socket.resetAndDestroy()),
      )
    })
    const gateway = await startGatewayTo(raw.url)
    const client = new RawClient(gateway.port).send(upgradeRequest())
    await eventually('half a frame', () => client.body.length > 2)
    expect(gateway.proxy.status().upstreams[0]?.longLived).toBe(1)
    client.send('go on')
    await eventually('a closed socket', () => client.closed || client.ended)
    client.socket.end()
    await expectQuiet(gateway)
  })

  test('the client resets in the middle of a frame', async () => {
    const room = await startSocketUpstream('a')
    const gateway = await startGatewayTo(room.upstream.url)
    const client = new RawClient(gateway.port).send(upgradeRequest())
    await eventually('an open socket', () => room.open.size === 1)
    client.socket.write('\x81\xfe', 'latin1', () => client.socket.resetAndDestroy())
    await eventually('the upstream to see it', () => room.open.size === 0)
    await expectQuiet(gateway)
  })

  test.each([
    ['resets', (socket: Socket) => socket.resetAndDestroy()],
    ['leaves', (socket: Socket) => socket.end()],
  ])('the client %s during the handshake: upstream let go, breaker unmoved', async (_how, leave) => {
    let atUpstream: Socket | undefined
    const raw = await startRawUpstream('a', (socket) => {
      atUpstream = socket
    })
    const gateway = await startGatewayTo(raw.url, { circuitBreaker: { consecutiveFailures: 1 } })
    const client = new RawClient(gateway.port).send(upgradeRequest())
    await eventually('the handshake upstream', () => atUpstream)
    expect(gateway.proxy.status().upstreams[0]?.longLived).toBe(1)
    leave(client.socket)
    await eventually('the upstream to be let go', () => atUpstream?.closed)
    await expectQuiet(gateway)
    expect(gateway.proxy.status().upstreams[0]?.breaker).toBe('closed')
    expect(await gateway.proxy.metrics?.metrics()).toContain('outcome="client-gone"} 1')
  })

  test('the client leaves after a long wait without an answer: that is the upstream’s timeout', async () => {
    const raw = await startRawUpstream('a', () => {})
    const gateway = await startGatewayTo(raw.url, {
      circuitBreaker: { consecutiveFailures: 1, abandonedAfterMs: 50 },
    })
    const client = new RawClient(gateway.port).send(upgradeRequest())
    await new Promise((resolve) => setTimeout(resolve, 100))
    client.socket.destroy()
    await expectQuiet(gateway)
    expect(gateway.proxy.status().upstreams[0]?.breaker).toBe('open')
  })

  test('all upstreams down: 503 with Retry-After, in text and in JSON', async () => {
    const upstreams = await Promise.all(['a', 'b', 'c'].map((id) => startUpstream(id)))
    await Promise.all(upstreams.map((upstream) => upstream.stop()))
    const gateway = await startSocketGateway({
      key: 'path',
      topology: staticTopology(upstreams.map(({ id, url }) => ({ id, url }))),
    })
    for (const accept of ['*/*', 'application/json']) {
      const client = new RawClient(gateway.port).send(upgradeRequest({ accept }))
      await eventually('the end', () => client.ended)
      client.socket.end()
      expect(client.head).toMatch(/^HTTP\/1.1 503 Service Unavailable\r\n/)
      expect(client.head).toMatch(/\r\nretry-after: [1-9]\d*(\r\n|$)/)
      expect(client.head).toMatch(/\r\nconnection: close(\r\n|$)/)
      expect(client.body).toMatch(accept === '*/*' ? /^No upstream/ : /^{"error":{"code":"[A-Z_]+"/)
      expect(client.received).not.toContain('127.0.0.1')
    }
    await expectQuiet(gateway)
  })

  test('an upstream that refuses every upgrade: each client is told, a probe permit is given back', async () => {
    const upstream = await startUpstream('a', notFound)
    const gateway = await startGatewayTo(upstream.url)
    for (let index = 0; index < 5; index += 1) {
      const socket = new WebSocket(`ws://127.0.0.1:${gateway.port}/room`)
      const [error] = await once(socket, 'error')
      expect(String(error)).toContain('404')
    }
    await expectQuiet(gateway)
    expect(gateway.proxy.status().upstreams[0]).toMatchObject({ breaker: 'closed', eligible: true })
  })

  test('a probe whose client leaves gives its permit back: the next one closes the breaker', async () => {
    const room = await startSocketUpstream('a')
    const port = room.upstream.port
    const gateway = await startGatewayTo(room.upstream.url, {
      circuitBreaker: { consecutiveFailures: 1, openMs: 50, jitter: 0 },
      retry: { attempts: 0 },
    })
    await room.upstream.stop()
    const refused = new RawClient(gateway.port).send(upgradeRequest())
    await eventually('the end', () => refused.ended)
    refused.socket.end()
    expect(gateway.proxy.status().upstreams[0]?.breaker).toBe('open')
    const raw = await startSilent(port)
    await eventually('half-open', () => gateway.proxy.status().upstreams[0]?.breaker === 'half-open')
    const probe = new RawClient(gateway.port).send(upgradeRequest())
    await eventually('the probe', () => raw.connections.length === 1)
    probe.socket.destroy()
    await expectQuiet(gateway)
    await raw.stop()
    await room.upstream.restart()
    const { greeting } = await openSocket(gateway)
    expect(greeting).toBe('a')
    expect(gateway.proxy.status().upstreams[0]?.breaker).toBe('closed')
  })
})

/** Accepts on a given port and says nothing. */
async function startSilent(port: number): Promise<{ connections: Socket[]; stop(): Promise<void> }> {
  const connections: Socket[] = []
  const server = createServer((socket) => {
    socket.on('error', () => {}).resume()
    connections.push(socket)
  }).listen(port, '127.0.0.1')
  await once(server, 'listening')
  const stop = async () => {
    for (const socket of connections) socket.destroy()
    if (server.listening) await new Promise((resolve) => server.close(resolve))
  }
  onTestFinished(stop)
  return { connections, stop }
}
