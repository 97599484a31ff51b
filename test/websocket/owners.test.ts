import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { WebSocketServer } from 'ws'
import { HashRing, staticTopology } from '../../src/index.ts'
import { LateTopology } from '../support/late-topology.ts'
import { metricOf } from '../support/metrics.ts'
import { ScriptedTopology } from '../support/scripted-topology.ts'
import { eventually, keyOwnedBy, startUpstream } from '../support/servers.ts'
import {
  connectionsOf,
  openSocket,
  RawClient,
  type SocketUpstream,
  startSocketGateway,
  startSocketUpstream,
  upgradeRequest,
} from '../support/web-sockets.ts'

const topologyOf = (...rooms: readonly SocketUpstream[]) =>
  staticTopology(rooms.map(({ upstream: { id, url } }) => ({ id, url })))
const ringOf = (...ids: readonly string[]) => new HashRing(ids.map((id) => ({ id, weight: 1 })))

describe('an upgrade goes to the next owner', () => {
  test('when its owner cannot be connected to, and nobody else’s socket moves', async () => {
    const [a, b] = [await startSocketUpstream('a'), await startSocketUpstream('b')]
    const gateway = await startSocketGateway({ key: 'header:x-room', topology: topologyOf(a, b) })
    const ofB = await openSocket(gateway, { 'x-room': keyOwnedBy(ringOf('a', 'b'), 'b') })
    await a.upstream.stop()
    const { socket, greeting } = await openSocket(gateway, { 'x-room': keyOwnedBy(ringOf('a', 'b'), 'a') })
    expect([ofB.greeting, greeting]).toEqual(['b', 'b'])
    expect(b.handshakes.map(({ headers }) => [headers['x-attempt'], headers['x-ring-owner']])).toEqual([
      ['1', 'b'],
      ['2', 'a'],
    ])
    socket.send('still here')
    expect(String((await once(socket, 'message'))[0])).toBe('still here')
    expect(await metricOf(gateway.proxy, 'retries_total', { reason: 'connect' })).toBe(1)
    expect(gateway.proxy.status().upstreams.map(({ longLived }) => longLived)).toEqual([0, 2])
  })

  test('with what the client sent behind its head, though the first owner broke the handshake off', async () => {
    const a = await startUpstream('a')
    a.server.on('upgrade', (_request, socket) => socket.destroy())
    const b = await startSocketUpstream('b')
    const gateway = await startSocketGateway({
      key: 'header:x-room',
      topology: staticTopology([
        { id: 'a', url: a.url },
        { id: 'b', url: b.upstream.url },
      ]),
    })
    const client = new RawClient(gateway.port)
    const request = upgradeRequest({ 'x-room': keyOwnedBy(ringOf('a', 'b'), 'a') })
    client.socket.write(`${request}\x81\x82\x00\x00\x00\x00hi`, 'latin1')
    await eventually('the echo', () => client.body === '\x81\x01b\x81\x02hi')
    expect(await metricOf(gateway.proxy, 'retries_total', { reason: 'reset' })).toBe(1)
  })

  test('when its owner has as many sockets as it may; 503 when all have; a closed one makes room', async () => {
    const rooms = [await startSocketUpstream('a'), await startSocketUpstream('b')] as const
    const gateway = await startSocketGateway({
      key: 'header:x-room',
      topology: topologyOf(...rooms),
      limits: { longLivedPerUpstream: 1 },
    })
    const headers = { 'x-room': keyOwnedBy(ringOf('a', 'b'), 'a') }
    const first = await openSocket(gateway, headers)
    const second = await openSocket(gateway, headers)
    expect([first.greeting, second.greeting]).toEqual(['a', 'b'])
    expect(await metricOf(gateway.proxy, 'overflow_total', { rank: '2' })).toBe(1)
    const third = new RawClient(gateway.port).send(upgradeRequest(headers))
    await eventually('the answer', () => third.ended)
    third.socket.end()
    expect(third.head).toMatch(/^HTTP\/1.1 503 .*\r\nretry-after: 1/s)
    // HTTP requests are held against another bound: the load has room.
    expect((await fetch(gateway.url, { headers })).status).toBe(200)
    first.socket.close()
    await eventually('room', () => gateway.proxy.status().upstreams[0]?.longLived === 0)
    expect((await openSocket(gateway, headers)).greeting).toBe('a')
  })

  test('not because of limits.inFlight, which bounds requests: open sockets take no room there', async () => {
    const room = await startSocketUpstream('a')
    const gateway = await startSocketGateway({
      key: 'path',
      topology: topologyOf(room),
      limits: { inFlight: 1 },
    })
    for (let index = 0; index < 3; index += 1) await openSocket(gateway)
    expect((await fetch(gateway.url)).status).toBe(200)
  })

  test('on the new ring, when its owner answers 421: the topology is read again once', async () => {
    const misdirected = await startUpstream('a', (_request, response) =>
      response.writeHead(421).end('not me'),
    )
    const room = await startSocketUpstream('b')
    const scripted = new ScriptedTopology([{ id: 'a', url: misdirected.url }])
    const late = new LateTopology(scripted)
    const gateway = await startSocketGateway({ key: 'header:x-room', topology: late })
    late.hold()
    scripted.set(2n, [{ id: 'b', url: room.upstream.url }])
    expect(gateway.proxy.status().revision).toBe('1')
    expect((await openSocket(gateway, { 'x-room': '1' })).greeting).toBe('b')
    expect(late.reads).toBe(1)
    expect(gateway.proxy.status().revision).toBe('2')
    expect(await metricOf(gateway.proxy, 'stale_topology_signs_total', { confirmed: 'true' })).toBe(1)
    expect(room.handshakes[0]?.headers['x-ring-owner']).toBe('b')
    const isLetGo = async () => (await connectionsOf(misdirected)) === 0
    await eventually('the first owner to be let go', isLetGo, 1_000)
  })
})

describe('an upgrade that no owner takes', () => {
  test.each([0, 2])('421 to the end is 503, with %i retries', async (attempts) => {
    const upstream = await startUpstream('a', (_request, response) => response.writeHead(421).end('not me'))
    const gateway = await startSocketGateway({
      key: 'path',
      topology: staticTopology([{ id: 'a', url: upstream.url }]),
      retry: { attempts },
    })
    const client = new RawClient(gateway.port).send(upgradeRequest())
    await eventually('the answer', () => client.ended)
    client.socket.end()
    expect(client.head).toMatch(/^HTTP\/1.1 503 /)
    expect(client.received).not.toContain('not me')
    expect(gateway.proxy.status().upstreams[0]?.breaker).toBe('closed')
  })

  test('a handshake that nobody answers is 504 after its own timeout, and counts against the upstream', async () => {
    const upstream = await startUpstream('a')
    const handshakes: Duplex[] = []
    upstream.server.on('upgrade', (_request, socket) => {
      handshakes.push(socket)
      socket.on('error', () => {}).resume()
      socket.on('end', () => socket.end())
    })
    const gateway = await startSocketGateway({
      key: 'path',
      topology: staticTopology([{ id: 'a', url: upstream.url }]),
      timeouts: { webSocketHandshakeMs: 100 },
      circuitBreaker: { consecutiveFailures: 1 },
    })
    const client = new RawClient(gateway.port).send(upgradeRequest())
    await eventually('the answer', () => client.ended)
    client.socket.end()
    expect(client.head).toMatch(/^HTTP\/1.1 504 Gateway Timeout\r\n/)
    expect(handshakes).toHaveLength(1)
    expect(gateway.proxy.status().upstreams[0]).toMatchObject({ longLived: 0, breaker: 'open' })
    await eventually('the upstream to be let go', () => handshakes[0]?.closed)
  })
})

describe('an upstream behind TLS', () => {
  let folder = ''
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'wss-test-'))
    const options =
      '-x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost'
    const names = '-keyout key.pem -out cert.pem -addext subjectAltName=IP:127.0.0.1'
    execFileSync('openssl', ['req', ...`${options} ${names}`.split(' ')], { cwd: folder, stdio: 'pipe' })
  })
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  async function startSecureRoom() {
    const [key, cert] = ['key.pem', 'cert.pem'].map((name) => readFileSync(join(folder, name), 'utf8'))
    const server = createServer({ key, cert })
    const rooms = new WebSocketServer({ server })
    rooms.on('connection', (socket) => socket.send('secure'))
    await once(server.listen(0, '127.0.0.1'), 'listening')
    onTestFinished(() => {
      for (const socket of rooms.clients) socket.terminate()
      server.close()
    })
    const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`
    return { ca: cert, topology: staticTopology([{ id: 'a', url }]) }
  }

  test('is joined when its certificate is trusted', async () => {
    const { ca, topology } = await startSecureRoom()
    const gateway = await startSocketGateway({ key: 'path', topology, upstreamTls: { ca } })
    expect((await openSocket(gateway)).greeting).toBe('secure')
  })

  test('is refused when it is not: no handshake is sent', async () => {
    const { topology } = await startSecureRoom()
    const gateway = await startSocketGateway({ key: 'path', topology })
    const client = new RawClient(gateway.port).send(upgradeRequest())
    await eventually('the answer', () => client.ended)
    client.socket.end()
    expect(client.head).toMatch(/^HTTP\/1.1 503 /)
  })
})
