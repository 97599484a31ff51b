import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { IncomingHttpHeaders } from 'node:http'
import { describe, expect, test } from 'vitest'
import { consistentHashProxy, key, OptionsError, staticTopology } from '../../src/index.ts'
import { eventually, startUpstreams } from '../support/servers.ts'
import {
  connectionsOf,
  openSocket,
  RawClient,
  startSocketGateway,
  startSocketUpstream,
  upgradeRequest,
} from '../support/web-sockets.ts'

const startRooms = (ids: readonly string[]) => Promise.all(ids.map(startSocketUpstream))
const topologyOf = (rooms: readonly { upstream: { id: string; url: string } }[]) =>
  staticTopology(rooms.map(({ upstream: { id, url } }) => ({ id, url })))

describe('an open WebSocket', () => {
  test('echoes, and every socket of one key is at one upstream', async () => {
    const rooms = await startRooms(['a', 'b', 'c'])
    const gateway = await startSocketGateway({ key: 'header:x-room', topology: topologyOf(rooms) })
    const owners = new Map<string, string>()
    for (let index = 0; index < 24; index += 1) {
      const room = `room-${index % 12}`
      const { socket, greeting } = await openSocket(gateway, { 'x-room': room })
      expect(owners.get(room) ?? greeting).toBe(greeting)
      owners.set(room, greeting)
      socket.send(`hello ${index}`)
      const [echo] = await once(socket, 'message')
      expect(String(echo)).toBe(`hello ${index}`)
    }
    expect(new Set(owners.values())).toEqual(new Set(['a', 'b', 'c']))
  })

  test('is counted as long-lived and never in the load, until both ends are closed', async () => {
    const rooms = await startRooms(['a'])
    const gateway = await startSocketGateway({ key: 'path', topology: topologyOf(rooms) })
    const ended: unknown[] = []
    gateway.proxy.on('request', (event) => ended.push(event))
    const { socket } = await openSocket(gateway)
    expect(gateway.proxy.status()).toMatchObject({ inFlight: 0, upstreams: [{ inFlight: 0, longLived: 1 }] })
    const metrics = await gateway.proxy.metrics?.metrics()
    expect(metrics).toContain('consistent_hash_proxy_long_lived{upstream="a"} 1')
    expect(metrics).toContain('consistent_hash_proxy_in_flight{upstream="a"} 0')
    socket.close()
    await eventually('the slot', () => gateway.proxy.status().upstreams[0]?.longLived === 0)
    expect(rooms[0]?.open.size).toBe(0)
    await eventually('the end of the request', () => ended.length > 0)
    expect(ended).toMatchObject([{ status: 101, outcome: 'answered', upstream: 'a' }])
  })

  test('carries 8 MB both ways at once under back-pressure, and loses no byte when the upstream ends', async () => {
    const [room] = await startRooms(['a'])
    if (!room) throw new Error('expected a room')
    const gateway = await startSocketGateway({ key: 'path', topology: topologyOf([room]) })
    const { socket } = await openSocket(gateway)
    const sent = randomBytes(8_000_000)
    const received: Buffer[] = []
    socket.on('message', (data: Buffer) => received.push(data))
    socket.pause()
    socket.send(sent)
    // The echo fills every buffer on its way to a client that does not read yet; then the upstream says goodbye.
    await eventually('the upstream to have it', () => room.open.size === 1)
    const [atUpstream] = room.open
    atUpstream?.once('message', () => atUpstream.close(1000))
    await eventually('a full gateway', () => (atUpstream?.bufferedAmount ?? 0) > 0)
    socket.resume()
    const [code] = await once(socket, 'close')
    expect(code).toBe(1000)
    expect(Buffer.concat(received).equals(sent)).toBe(true)
  })

  test('what an upstream says right before it closes reaches a client that reads slowly', async () => {
    const [upstream] = await startUpstreams(['a'])
    if (!upstream) throw new Error('expected an upstream')
    const farewell = 'x'.repeat(6_000_000)
    upstream.server.on('upgrade', (_request, socket) => {
      socket.on('error', () => {})
      socket.end(
        `HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n${farewell}`,
      )
    })
    const gateway = await startSocketGateway({ key: 'path', topology: topologyOf([{ upstream }]) })
    const client = new RawClient(gateway.port).send(upgradeRequest())
    client.socket.pause()
    await eventually('bytes at the client', () => client.socket.bytesRead > 0)
    await new Promise((resolve) => setTimeout(resolve, 100)) // nothing tells when all buffers are full
    client.socket.resume()
    await eventually('the end', () => client.ended)
    expect(client.body.length).toBe(farewell.length)
    // A client that never ends its own side keeps nothing open here.
    await eventually('the slot', () => gateway.proxy.status().upstreams[0]?.longLived === 0)
    await eventually('a closed socket', async () => (await connectionsOf(gateway)) === 0)
  })

  test('a client that ends its side still gets what the upstream says after that', async () => {
    const [upstream] = await startUpstreams(['a'])
    if (!upstream) throw new Error('expected an upstream')
    upstream.server.on('upgrade', (_request, socket, head) => {
      socket.write('HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n')
      const said: Buffer[] = []
      if (head.length > 0) socket.unshift(head)
      socket.on('data', (chunk: Buffer) => said.push(chunk))
      socket.on('end', () => socket.end(`you said ${Buffer.concat(said)}`))
    })
    const gateway = await startSocketGateway({ key: 'path', topology: topologyOf([{ upstream }]) })
    const client = new RawClient(gateway.port).send(upgradeRequest())
    client.socket.end('goodbye')
    await eventually('the end', () => client.ended)
    expect(client.body).toBe('you said goodbye')
    await eventually('the slot', () => gateway.proxy.status().upstreams[0]?.longLived === 0)
  })

  test('frames sent right behind the handshake arrive', async () => {
    const rooms = await startRooms(['a'])
    const gateway = await startSocketGateway({ key: 'path', topology: topologyOf(rooms) })
    const maskedHi = '\x81\x82\x00\x00\x00\x00hi'
    const client = new RawClient(gateway.port)
    client.socket.write(upgradeRequest() + maskedHi, 'latin1')
    await eventually('the echo', () => client.body === '\x81\x01a\x81\x02hi')
  })
})

describe('the way to the upstream', () => {
  test('mountPath is stripped, and what is not below it is left alone', async () => {
    const rooms = await startRooms(['a'])
    const gateway = await startSocketGateway({ key: 'path', topology: topologyOf(rooms), mountPath: '/api' })
    gateway.server.on('upgrade', (request, socket) => {
      if (!request.url?.startsWith('/api/')) socket.end('HTTP/1.1 418 Elsewhere\r\n\r\n')
    })
    await openSocket(gateway, {}, '/api/room?id=1')
    expect(rooms[0]?.handshakes.map(({ url }) => url)).toEqual(['/room?id=1'])
    const other = new RawClient(gateway.port).send(upgradeRequest({}, '/apiary'))
    await eventually('the other listener', () => other.ended)
    expect(other.head).toBe('HTTP/1.1 418 Elsewhere')
    expect(rooms[0]?.handshakes).toHaveLength(1)
  })

  test('topology headers are the gateway’s own, and none comes back; forged X-Forwarded-* do not pass', async () => {
    const [upstream] = await startUpstreams(['a'])
    if (!upstream) throw new Error('expected an upstream')
    let seen: IncomingHttpHeaders = {}
    upstream.server.on('upgrade', (request, socket) => {
      seen = request.headers
      socket.end(
        'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade, X-Hop\r\nUpgrade: websocket\r\nX-Hop: 1\r\n' +
          'X-Topology: id=x;epoch=0;revision=1;digest=0123456789abcdef\r\nX-Attempt: 9\r\nKeep-Alive: timeout=5\r\n' +
          'Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-Room: kept\r\n\r\n',
      )
    })
    const gateway = await startSocketGateway({
      key: 'header:x-room',
      topology: topologyOf([{ upstream }]),
      exposeUpstreamId: true,
    })
    const forged = {
      'x-topology': 'forged',
      'x-ring-owner': 'forged',
      'x-key-hash': 'forged',
      'x-attempt': '7',
    }
    const client = new RawClient(gateway.port).send(
      upgradeRequest({ 'x-room': '1', ...forged, 'x-forwarded-for': '6.6.6.6', forwarded: 'for=6.6.6.6' }),
    )
    await eventually('the 101', () => client.ended)
    expect(seen['x-ring-owner']).toBe('a')
    expect(seen['x-attempt']).toBe('1')
    expect(seen['x-key-hash']).toMatch(/^[0-9a-f]{16}$/)
    expect(seen['x-topology']).toMatch(/^id=.*;digest=[0-9a-f]{16}$/)
    expect(seen['x-forwarded-for']).toBe('127.0.0.1')
    expect(seen).not.toHaveProperty('forwarded')
    const lines = client.head.toLowerCase().split('\r\n')
    expect(lines.shift()).toBe('http/1.1 101 switching protocols')
    expect(lines.sort()).toEqual([
      'connection: upgrade',
      'set-cookie: a=1',
      'set-cookie: b=2',
      'upgrade: websocket',
      'x-room: kept',
      'x-upstream-id: a',
    ])
  })

  test('a key that an upgrade cannot have throws where `upgrade` is asked for, and nowhere else', async () => {
    const rooms = await startRooms(['a'])
    for (const source of [key.param('id'), key.body('/user')]) {
      const proxy = consistentHashProxy({ key: source, topology: topologyOf(rooms) })
      expect(() => proxy.upgrade).toThrow(OptionsError)
      expect(() => proxy.upgrade).toThrow(source.description)
      await proxy.close()
    }
  })

  test.each([
    ['a body', upgradeRequest({ 'x-room': '1', 'content-length': '2' })],
    ['another method than GET', upgradeRequest({ 'x-room': '1' }).replace('GET', 'POST')],
    ['another protocol', upgradeRequest({ 'x-room': '1', upgrade: 'h2c' })],
    ['two hosts', upgradeRequest({ 'x-room': '1', Host: 'other.test' })],
    ['no routing key', upgradeRequest({ 'x-room': ' ' })],
    ['a long routing key', upgradeRequest({ 'x-room': 'r'.repeat(5_000) })],
  ])('an upgrade with %s is refused, and does not disturb the next one', async (_what, request) => {
    const rooms = await startRooms(['a', 'b'])
    const gateway = await startSocketGateway({
      key: 'header:x-room',
      onMissingKey: 'reject',
      topology: topologyOf(rooms),
    })
    const client = new RawClient(gateway.port).send(request)
    await eventually('the answer', () => client.ended)
    client.socket.end()
    expect(client.head).toMatch(/^HTTP\/1.1 400 Bad Request\r\n/)
    expect(rooms.flatMap(({ handshakes }) => handshakes)).toHaveLength(0)
    const { greeting } = await openSocket(gateway, { 'x-room': '1' })
    expect(['a', 'b']).toContain(greeting)
    await eventually('a closed socket', async () => (await connectionsOf(gateway)) === 1)
  })
})
