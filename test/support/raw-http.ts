import { once } from 'node:events'
import { type Agent, type IncomingHttpHeaders, type OutgoingHttpHeaders, request } from 'node:http'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'
import { type ConsistentHashProxyOptions, staticTopology } from '../../src/index.ts'
import { startGateway, type TestGateway } from './servers.ts'

/** An upstream that speaks raw TCP, for answers that no HTTP server would give. */
export interface RawUpstream {
  readonly id: string
  readonly url: string
  /** The heads of the requests that reached it, in order. */
  readonly heads: string[]
  /** All that reached it, connection by connection. */
  readonly received: string[]
  /** Its open connections. */
  readonly sockets: Set<Socket>
}

/** `handle` is called for each head that comes in whole. Closed when the test is over. */
export async function startRawUpstream(
  id: string,
  handle: (socket: Socket, head: string) => void,
): Promise<RawUpstream> {
  const heads: string[] = []
  const received: string[] = []
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket.setEncoding('latin1'))
    const connection = received.push('') - 1
    let unread = ''
    socket.on('data', (text: string) => {
      received[connection] += text
      unread += text
      for (let end = unread.indexOf('\r\n\r\n'); end >= 0; end = unread.indexOf('\r\n\r\n')) {
        const head = unread.slice(0, end)
        unread = unread.slice(end + 4)
        if (!/^[A-Z]+ \S+ HTTP\/1\.1\r\n/.test(head)) continue // the end of a chunked body
        heads.push(head)
        handle(socket, head)
      }
    })
    socket.on('error', () => {}).once('close', () => sockets.delete(socket))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { id, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, heads, received, sockets }
}

/** A gateway on these upstreams, with its topology in. The key is `x-user-id` unless the options say otherwise. */
export async function startGatewayTo(
  upstreams: readonly { id: string; url: string }[],
  options: Partial<ConsistentHashProxyOptions> = {},
  mount?: Parameters<typeof startGateway>[1],
): Promise<TestGateway> {
  const topology = staticTopology(upstreams.map(({ id, url }) => ({ id, url })))
  const gateway = await startGateway({ key: 'header:x-user-id', topology, ...options }, mount)
  await gateway.proxy.ready()
  return gateway
}

export interface Call {
  readonly method?: string
  readonly path?: string
  readonly headers?: OutgoingHttpHeaders
  readonly body?: string | Buffer
  readonly agent?: Agent
}

export interface CallAnswer {
  readonly status: number | undefined
  readonly statusText: string | undefined
  readonly headers: IncomingHttpHeaders
  readonly rawHeaders: readonly string[]
  readonly body: Buffer
  readonly trailers: NodeJS.Dict<string>
  /** The links of the early hints that came before. */
  readonly hints: readonly (string | string[] | undefined)[]
}

/** One request, on a connection of its own unless an agent is given. Rejects when the answer is not whole. */
export async function call({ port }: { readonly port: number }, options: Call = {}): Promise<CallAnswer> {
  const { body, ...rest } = options
  const sent = request({ host: '127.0.0.1', port, agent: false, ...rest })
  const hints: (string | string[] | undefined)[] = []
  sent.on('information', ({ headers }) => hints.push(headers.link))
  sent.end(body)
  const [message] = await once(sent, 'response')
  sent.on('error', () => {}) // behind an answer it speaks of the rest of the body
  const chunks: Buffer[] = []
  for await (const chunk of message) chunks.push(chunk)
  return {
    status: message.statusCode,
    statusText: message.statusMessage,
    headers: message.headers,
    rawHeaders: message.rawHeaders,
    body: Buffer.concat(chunks),
    trailers: message.trailers,
    hints,
  }
}

/** All values of one header, in order. */
export function valuesOf(rawHeaders: readonly string[], name: string): string[] {
  return rawHeaders.filter((_, index) => index % 2 === 1 && rawHeaders[index - 1]?.toLowerCase() === name)
}
