import { once } from 'node:events'
import type { IncomingMessage, Server } from 'node:http'
import { connect, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { startGateway, startUpstream, type TestGateway, type TestUpstream } from './servers.ts'

/** A real WebSocket server behind a `TestUpstream`: says its id, then echoes. */
export interface SocketUpstream {
  readonly upstream: TestUpstream
  /** The handshakes that reached it. */
  readonly handshakes: IncomingMessage[]
  /** Its open ends. */
  readonly open: Set<WebSocket>
}

export async function startSocketUpstream(id: string): Promise<SocketUpstream> {
  const upstream = await startUpstream(id)
  const handshakes: SocketUpstream['handshakes'] = []
  const sockets = new WebSocketServer({ server: upstream.server })
  sockets.on('connection', (socket, request) => {
    handshakes.push(request)
    socket.on('error', () => {})
    socket.on('message', (data, isBinary) => socket.send(data, { binary: isBinary }))
    socket.send(id)
  })
  onTestFinished(() => {
    for (const socket of sockets.clients) socket.terminate()
  })
  return { upstream, handshakes, open: sockets.clients }
}

/** A gateway that also listens for upgrades. */
export async function startSocketGateway(
  ...[options, mount]: Parameters<typeof startGateway>
): Promise<TestGateway> {
  const gateway = await startGateway(options, mount)
  const sockets = new Set<Socket>()
  gateway.server.on('connection', (socket) => sockets.add(socket))
  gateway.server.on('upgrade', gateway.proxy.upgrade)
  // `closeAllConnections` knows nothing of a socket that was upgraded.
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
  })
  await gateway.proxy.ready()
  return gateway
}

/** A WebSocket through the gateway, open, with its first message. */
export async function openSocket(
  gateway: { readonly port: number },
  headers: Record<string, string> = {},
  path = '/room',
): Promise<{ socket: WebSocket; greeting: string }> {
  const socket = new WebSocket(`ws://127.0.0.1:${gateway.port}${path}`, { headers })
  onTestFinished(() => socket.terminate())
  const [greeting] = await once(socket, 'message')
  return { socket, greeting: String(greeting) }
}

/** The lines of an upgrade request, for tests that speak raw TCP. */
export function upgradeRequest(headers: Record<string, string> = {}, path = '/room'): string {
  const fields = {
    host: 'gateway.test',
    connection: 'Upgrade',
    upgrade: 'websocket',
    'sec-websocket-version': '13',
    'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
    ...headers,
  }
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`)
  return `GET ${path} HTTP/1.1\r\n${lines.join('')}\r\n`
}

/** A raw connection that collects what it receives. */
export class RawClient {
  readonly socket: Socket
  received = ''
  /** The other side has ended. */
  ended = false
  closed = false

  constructor(port: number) {
    this.socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
    this.socket.on('error', () => {})
    this.socket.setEncoding('latin1').on('data', (text: string) => {
      this.received += text
    })
    this.socket.once('end', () => {
      this.ended = true
    })
    this.socket.once('close', () => {
      this.closed = true
    })
    onTestFinished(() => {
      this.socket.destroy()
    })
  }

  send(text: string): this {
    this.socket.write(text)
    return this
  }

  get head(): string {
    return this.received.split('\r\n\r\n', 1)[0] ?? ''
  }

  get body(): string {
    return this.received.slice(this.head.length + 4)
  }
}

/** How many connections a server has, upgraded ones too. */
export function connectionsOf({ server }: { readonly server: Server }): Promise<number> {
  return new Promise((resolve, reject) => {
    server.getConnections((error, count) => (error ? reject(error) : resolve(count)))
  })
}
