import { Agent, request } from 'node:http'
import { type Account, type RequestKind, type Sent, settle } from './account.ts'
import type { UpstreamProcess } from './upstream-process.ts'

export interface TrafficOptions {
  /** Ports of the gateways; each client keeps to one. */
  readonly ports: readonly number[]
  readonly perSecond: number
  /** Different keys. Default 199: prime, so that every client meets every key with every kind of request. */
  readonly keys?: number
  /** Whether every tenth request is a POST with `Idempotency-Key`, and another one without. Default true. */
  readonly posts?: boolean
  /** Number of the first request: for several traffics to the same upstreams. Default 0. */
  readonly firstNumber?: number
  /** Called with each request when it has its answer or error. */
  readonly onSettled?: (sent: Sent) => void
}

const clients = 4
const tickMs = 10

/**
 * Constant traffic of several keep-alive clients: numbered requests at a steady rate, however slow the answers. What
 * becomes of each is written down.
 */
export class Traffic {
  readonly requests: Sent[] = []
  readonly #options: TrafficOptions
  // Node's server closes a connection that idles for 5 s: what is sent in that moment would be lost by the client's doing.
  readonly #agents = Array.from({ length: clients }, () => new Agent({ keepAlive: true, timeout: 3_000 }))
  readonly #started = performance.now()
  readonly #timer: NodeJS.Timeout
  #pending = 0
  #onSettled: () => void = () => {}

  constructor(options: TrafficOptions) {
    this.#options = options
    this.#timer = setInterval(() => this.#tick(), tickMs)
  }

  /** Sends no more, and waits up to `patienceMs` for what is under way. */
  async stop(upstreams: readonly UpstreamProcess[], patienceMs = 15_000): Promise<Account> {
    clearInterval(this.#timer)
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, patienceMs)
      this.#onSettled = () => {
        if (this.#pending > 0) return
        clearTimeout(timer)
        resolve()
      }
      this.#onSettled()
    })
    for (const agent of this.#agents) agent.destroy()
    return settle(
      this.requests,
      upstreams.flatMap(({ executed }) => executed),
    )
  }

  #tick(): void {
    const due = ((performance.now() - this.#started) / 1_000) * this.#options.perSecond
    while (this.requests.length < due) this.#send(this.requests.length + (this.#options.firstNumber ?? 0))
  }

  #send(number: number): void {
    const { ports, keys = 199, posts = true } = this.#options
    const client = number % clients
    const gateway = client % ports.length
    const kind: RequestKind = posts ? (kinds[number % 10] ?? 'get') : 'get'
    const key = `user-${number % keys}`
    const sent: Sent = { number, kind, key, gateway, at: performance.now() }
    this.requests.push(sent)
    this.#pending += 1
    const headers = {
      'x-user-id': key,
      'x-number': number,
      ...(kind === 'keyed-post' && { 'idempotency-key': number }),
    }
    const method = kind === 'get' ? 'GET' : 'POST'
    const agent = this.#agents[client]
    const call = request({ host: '127.0.0.1', port: ports[gateway], method, agent, headers, path: '/work' })
    call.once('response', (answer) => {
      let body = ''
      answer.setEncoding('utf8').on('data', (text: string) => {
        body += text
      })
      answer.once('error', ({ message }) => this.#settle(sent, message))
      answer.once('end', () => {
        const [, echoed, upstream] = /^(\d+) (\S+)$/.exec(body) ?? []
        if (echoed && upstream) sent.echo = { number: Number(echoed), upstream }
        this.#settle(sent, String(answer.statusCode))
      })
    })
    call.once('error', (error) => this.#settle(sent, 'code' in error ? String(error.code) : error.message))
    call.end(kind === 'get' ? undefined : `body of ${number}`)
  }

  #settle(sent: Sent, result: string): void {
    if (sent.result !== undefined) return
    sent.result = result
    sent.tookMs = performance.now() - sent.at
    this.#pending -= 1
    this.#options.onSettled?.(sent)
    this.#onSettled()
  }
}

/** Of ten requests in a row. */
const kinds: readonly RequestKind[] = [
  ...['get', 'get', 'get', 'keyed-post', 'get'],
  ...['get', 'get', 'get', 'post', 'get'],
] as const satisfies readonly RequestKind[]
