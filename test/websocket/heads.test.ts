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
