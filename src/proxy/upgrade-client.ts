import type { Duplex } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Clock } from '../clock.ts'
import type { KeyRequest } from '../key/key-source.ts'
import { type Deadlines, PhaseTimer } from '../transport/phase-timer.ts'
import type { UpgradeRefusal } from '../transport/transport.ts'
import { Client } from './client.ts'
import type { Failure } from './failure.ts'
import type { RelayOutcome } from './relay.ts'
import { failureBody, retryAfterSeconds, serialiseHead } from './respond.ts'

/** How long a client may take to end its side behind the end of ours, in milliseconds. */
const lingerMs = 2_000

/** A client that waits for its connection to be upgraded: there is no response object, only the socket. */
export class UpgradeClient extends Client {
  readonly socket: Duplex
  readonly #clock: Clock
  readonly #deadlines: Deadlines

  constructor(request: KeyRequest, socket: Duplex, clock: Clock, deadlines: Deadlines) {
    super(request)
    this.socket = socket
    this.#clock = clock
    this.#deadlines = deadlines
    socket.on('error', () => {}) // told by `close`
    socket.once('end', this.#leaveEarly)
    socket.once('finish', () => this.#linger())
    if (socket.destroyed) this.close()
    else socket.once('close', () => this.close())
  }

  protected override close(): void {
    this.leave()
    super.close()
  }

  override breakOff(): void {
    this.socket.destroy()
  }

  /** From here on an end of its side is just that. */
  override answering(): void {
    this.socket.off('end', this.#leaveEarly)
  }

  /** Passes on an answer other than 101: status line, headers, body, and the end of the connection. Never rejects. */
  async relay(response: UpgradeRefusal, headers: readonly string[], idleMs: number): Promise<RelayOutcome> {
    this.answering()
    const { body, status, statusText } = response
    let failure: RelayOutcome = 'client-gone'
    const idle = new PhaseTimer(this.#deadlines, () => {
      failure = 'idle'
      body.destroy()
    })
    body.once('error', () => {
      if (failure !== 'idle' && !this.socket.destroyed) failure = 'upstream-broke'
    })
    idle.start(idleMs)
    body.on('data', () => idle.touch())
    this.socket.write(serialiseHead(status, statusText, [...headers, 'connection', 'close']))
    try {
      await pipeline(body, this.socket)
      return 'complete'
    } catch {
      return failure
    } finally {
      idle.stop()
    }
  }

  protected override answer(failure: Failure): void {
    this.answering()
    const { type, body } = failureBody(this.request, failure)
    const headers = [
      ...['content-type', type, 'content-length', String(Buffer.byteLength(body))],
      ...['cache-control', 'no-store', 'connection', 'close'],
    ]
    if (failure.retryAfterMs !== undefined)
      headers.push('retry-after', retryAfterSeconds(failure.retryAfterMs))
    this.socket.end(serialiseHead(failure.status, undefined, headers) + body)
  }

  /** Whoever ends its side before it has an answer waits for none: as Node's server sees it for requests. */
  readonly #leaveEarly = () => this.socket.destroy()

  /** A close on bytes that nobody has read would reset the connection, and our last words with it (RFC 9112 §9.6). */
  #linger(): void {
    this.socket.resume()
    const timer = this.#clock.setTimeout(() => this.socket.destroy(), lingerMs)
    this.socket.once('close', () => timer.cancel())
  }
}
