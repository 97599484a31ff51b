import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { Duplex } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { staticTopology } from '../../src/index.ts'
import { eventually, startGateway, startUpstream } from '../support/servers.ts'
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

/** An upstream that agrees to every upgrade, and then does what `say` says. */
async function startSayer(id: string, say: (socket: Duplex) => void) {
  const upstream = await startUpstream(id)
  upstream.server.on('upgrade', (_request, socket, head) => {
    if (head.length > 0) socket.unshift(head)
    socket.on('error', () => {}).resume()
    socket.write('HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n')
    say(socket)
  })
  return upstream
}

/** A client's socket that takes its time with every write. */
class SlowLink extends Duplex {
  readonly #socket: Duplex

  constructor(socket: Duplex) {
    super()
    this.#socket = socket
    socket.on('data', (chunk) => this.push(chunk)).on('end', () => this.push(null))
    socket.on('error', () => {}).on('close', () => this.destroy())
  }

  setTimeout() {}
  setNoDelay() {}
  setKeepAlive() {}
  override _read() {}

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void) {
    setTimeout(() => this.#socket.write(chunk, done), 20)
  }

  override _final(done: () => void) {
    this.#socket.end(done)
  }

  override _destroy(_error: Error | null, done: () => void) {
    this.#socket.destroy()
    done()
  }
}

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
    await eventually('the upstream to see it', () => rooms[0]?.open.size === 0)
    await eventually('the end of the request', () => ended.length > 0)
    expect(ended).toMatchObject([{ status: 101, outcome: 'answered', upstream: 'a' }])
    expect(await gateway.proxy.metrics?.metrics()).not.toMatch(/request_duration_seconds_count\{.*\} [1-9]/)
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

  test('what an upstream says right before it closes reaches a client on a slow link', async () => {
    const farewell = 'x'.repeat(300_000)
    const upstream = await startSayer('a', (socket) => socket.end(farewell))
    const gateway = await startGateway({ key: 'path', topology: topologyOf([{ upstream }]) })
    gateway.server.on('upgrade', (request, socket, head) =>
      gateway.proxy.upgrade(request, new SlowLink(socket), head),
    )
    const client = new RawClient(gateway.port).send(upgradeRequest())
    await eventually('the end', () => client.ended)
    expect(client.body.length).toBe(farewell.length)
    // A client that never ends its own side keeps nothing open here.
    await eventually('the slot', () => gateway.proxy.status().upstreams[0]?.longLived === 0)
    await eventually('a closed socket', async () => (await connectionsOf(gateway)) === 0)
  })

  test('when the upstream has ended, what the client still says is for nobody, and its end is the end', async () => {
    const upstream = await startSayer('a', (socket) => socket.end('goodbye'))
    const gateway = await startSocketGateway({ key: 'path', topology: topologyOf([{ upstream }]) })
    const client = new RawClient(gateway.port).send(upgradeRequest())
    await eventually('the end', () => client.ended)
    client.socket.end('x'.repeat(1_000_000))
    await eventually('a closed socket', async () => (await connectionsOf(gateway)) === 0, 1_000)
  })

  test('a client that ends its side still gets what the upstream says after that', async () => {
    const upstream = await startSayer('a', (socket) => {
      const said: Buffer[] = []
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
