import { createServer, type ServerResponse } from 'node:http'
import { type Dispatcher, Pool } from 'undici'
import { agentOptions, type CreateProxy, roundRobin } from '../proxy-settings.ts'

/**
 * Bare `undici`: its `dispatch`, the headers passed on but for those that belong to one connection, back-pressure and
 * nothing else.
 */
export const create: CreateProxy = async ({ upstreams }) => {
  const pools = upstreams.map(
    (port) => new Pool(`http://127.0.0.1:${port}`, { connections: agentOptions.maxSockets }),
  )
  const poolOf = roundRobin(pools)
  return createServer((request, response) => {
    const { method = 'GET', url = '/', headers } = request
    const hasBody = headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined
    const { connection: _, 'keep-alive': __, 'transfer-encoding': ___, ...passed } = headers
    poolOf().dispatch(
      {
        ...{ path: url, method: method as Dispatcher.HttpMethod, headers: passed },
        body: hasBody ? request : null,
      },
      new Forwarding(response),
    )
  })
}

class Forwarding implements Dispatcher.DispatchHandler {
  readonly #response: ServerResponse

  constructor(response: ServerResponse) {
    this.#response = response
  }

  onConnect(abort: () => void): void {
    this.#response.once('close', () => {
      if (!this.#response.writableFinished) abort()
    })
  }

  onHeaders(status: number, headers: Buffer[], resume: () => void): boolean {
    const raw = headers.map((field) => field.toString('latin1'))
    const kept: string[] = []
    for (let index = 0; index < raw.length; index += 2) {
      const name = raw[index] as string
      if (/^(?:connection|keep-alive|transfer-encoding)$/i.test(name)) continue
      kept.push(name, raw[index + 1] as string)
    }
    this.#response.writeHead(status, kept).on('drain', resume)
    return true
  }

  onData(chunk: Buffer): boolean {
    return this.#response.write(chunk)
  }

  onComplete(): void {
    this.#response.end()
  }

  onError(): void {
    this.#response.destroy()
  }
}
