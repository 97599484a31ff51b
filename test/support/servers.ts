import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import express, { type Express } from 'express'
import { onTestFinished } from 'vitest'
import {
  type ConsistentHashProxy,
  type ConsistentHashProxyOptions,
  consistentHashProxy,
} from '../../src/index.ts'
import { testedTransport } from './transport.ts'

/** What an upstream received of one request. */
export interface Received {
  readonly method: string
  readonly url: string
  readonly headers: IncomingMessage['headers']
  readonly rawHeaders: string[]
  readonly body: Buffer
}

export type Handler = (request: IncomingMessage, response: ServerResponse, upstream: TestUpstream) => void

/** A real, tiny upstream: answers its own id and counts what it executed. */
export class TestUpstream {
  readonly id: string
  readonly server: Server
  /** Requests whose body came in whole, in order. */
  readonly received: Received[] = []
  /** Requests being handled, and the most there were at once. */
  active = 0
  peak = 0
  #port = 0

  constructor(id: string, handler: Handler) {
    this.id = id
    this.server = createServer((request, response) => {
      this.active += 1
      this.peak = Math.max(this.peak, this.active)
      response.once('close', () => {
        this.active -= 1
      })
      handler(request, response, this)
    })
  }

  get port(): number {
    return this.#port
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`
  }

  /** How many requests it has executed. */
  get count(): number {
    return this.received.length
  }

  async start(port = 0): Promise<this> {
    await new Promise<void>((resolve, reject) => {
      this.server.once('error', reject).listen(port, '127.0.0.1', resolve)
    })
    this.#port = (this.server.address() as AddressInfo).port
    return this
  }

  /** Closes the port and every connection: whoever connects next is refused. */
  async stop(): Promise<void> {
    this.server.closeAllConnections()
    if (this.server.listening) await new Promise((resolve) => this.server.close(resolve))
  }

  /** Listens on the same port again. */
  restart(): Promise<this> {
    return this.start(this.#port)
  }
}

/** Nobody waits for an answer to a request that broke off. */
const left = () => {}

/** Reads the body, notes the request, and answers the upstream's id. */
export const answerId: Handler = (request, response, upstream) => {
  receive(request, upstream).then(() => response.end(upstream.id), left)
}

/** As `answerId`, after so many milliseconds. */
export const answerAfter =
  (milliseconds: number): Handler =>
  (request, response, upstream) => {
    receive(request, upstream).then(() => setTimeout(() => response.end(upstream.id), milliseconds), left)
  }

/** Reads the whole body and notes the request. */
export async function receive(request: IncomingMessage, upstream: TestUpstream): Promise<Received> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  const { method = '', url = '', headers, rawHeaders } = request
  const received = { method, url, headers, rawHeaders, body: Buffer.concat(chunks) }
  upstream.received.push(received)
  return received
}

/** Starts an upstream on a free port; it is stopped when the test is over. */
export async function startUpstream(id: string, handler: Handler = answerId): Promise<TestUpstream> {
  const upstream = await new TestUpstream(id, handler).start()
  onTestFinished(() => upstream.stop())
  return upstream
}

export function startUpstreams(ids: readonly string[], handler: Handler = answerId): Promise<TestUpstream[]> {
  return Promise.all(ids.map((id) => startUpstream(id, handler)))
}

export interface TestGateway {
  readonly proxy: ConsistentHashProxy
  readonly app: Express
  readonly server: Server
  readonly port: number
  readonly url: string
  close(): Promise<void>
}

/** An Express gateway on a free port; closed when the test is over. `mount` puts other middleware before the proxy. */
export async function startGateway(
  options: ConsistentHashProxyOptions,
  mount: (app: Express) => void = () => {},
): Promise<TestGateway> {
  const proxy = consistentHashProxy({ transport: testedTransport, ...options })
  const app = express()
  mount(app)
  app.use(proxy)
  const server = createServer(app)
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  const { port } = server.address() as AddressInfo
  const close = async () => {
    server.closeAllConnections()
    if (server.listening) await new Promise((resolve) => server.close(resolve))
    await proxy.close()
  }
  onTestFinished(close)
  return { proxy, app, server, port, url: `http://127.0.0.1:${port}`, close }
}

/** A key that `owner` owns first among the upstreams of a proxy's status; tries `prefix0`, `prefix1`… */
export function keyOwnedBy(
  ring: { owner(key: string): string | undefined },
  owner: string,
  prefix = 'key-',
): string {
  for (let index = 0; index < 100_000; index += 1) {
    if (ring.owner(prefix + index) === owner) return prefix + index
  }
  throw new Error(`no key found that ${owner} owns`)
}

/** Waits until `condition` holds; fails after `milliseconds` with what was waited for. */
export async function eventually(
  what: string,
  condition: () => unknown,
  milliseconds = 5_000,
): Promise<void> {
  const deadline = Date.now() + milliseconds
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`waited ${milliseconds} ms for ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}
