import type { OutgoingHttpHeaders } from 'node:http'
import type { Dispatcher } from 'undici'
import type { Deadlines } from './phase-timer.ts'
import { isReset, RequestExchange } from './request-exchange.ts'
import { type AttemptOptions, impossibleStatus, type OutgoingRequest } from './transport.ts'
import type { UndiciConnection } from './undici-connection.ts'
import type { PoolUser, UndiciPool } from './undici-pool.ts'
import { UndiciResponse } from './undici-response.ts'

/**
 * One request that undici sends. It is undici's handler itself, in the form that is called as the parser goes: the one
 * with a controller costs an object of headers for each answer.
 */
export class UndiciAttempt extends RequestExchange implements Dispatcher.DispatchHandler, PoolUser {
  readonly #request: OutgoingRequest
  readonly #pool: UndiciPool
  #connection: UndiciConnection | undefined
  #abort: (() => void) | undefined
  #hasAnswered = false
  #response: UndiciResponse | undefined

  constructor(request: OutgoingRequest, options: AttemptOptions, deadlines: Deadlines, pool: UndiciPool) {
    super(options, deadlines)
    this.#request = request
    this.#pool = pool
    // A request that waits for a free connection of the pool waits for a slow upstream.
    this.wait(options.timeouts.firstByteMs)
    pool.lend(this)
  }

  take(connection: UndiciConnection): void {
    const { body } = this.options
    const { method, path, headers, target } = this.#request
    this.#connection = connection
    connection.client.dispatch(
      {
        method: method as Dispatcher.HttpMethod,
        path,
        headers: withoutFraming(headers),
        body: body ? this.open(body) : null,
        // Undici would close the connection behind a HEAD, and hold others up behind anything else.
        reset: false,
        blocking: false,
        // Else undici makes the connection anew when a client's `Host` is another one than before.
        servername: target.hostname,
      } as Dispatcher.DispatchOptions,
      this,
    )
  }

  onConnect(abort: () => void): void {
    this.#abort = abort
    if (this.settled) abort()
    else if (this.#connection) this.connected(this.#connection.use())
  }

  onBodySent(): void {
    this.timer.touch()
  }

  onRequestSent(): void {
    this.sent()
  }

  onResponseStarted(): void {
    this.#hasAnswered = true
  }

  onHeaders(status: number, headers: Buffer[], resume: () => void, statusText: string): boolean {
    const rawHeaders = headers.map(toText)
    const impossible = impossibleStatus(status)
    if (impossible) {
      this.fail(impossible)
      this.destroy()
    } else if (status < 200) {
      if (!this.settled) this.options.onInformation?.(status, rawHeaders)
    } else {
      const response = new UndiciResponse(status, statusText, rawHeaders, resume)
      this.#response = response
      // Undici misses the body that a 304 speaks of in its `Content-Length`.
      if (response.isBodiless) response.complete([])
      this.settle({ kind: 'responded', response })
    }
    return true
  }

  onData(chunk: Buffer): boolean {
    return this.#response?.push(chunk) ?? true
  }

  onComplete(trailers: readonly (string | Buffer)[] | null): void {
    const connection = this.#giveUp()
    const response = this.#response
    if (response?.endsWithConnection && connection?.isReset) response.break()
    else response?.complete(trailers?.map(toText) ?? [])
    if (connection) this.#pool.release(connection)
  }

  onError(error: Error): void {
    const connection = this.#giveUp()
    this.fail(error)
    this.#response?.break()
    if (connection) this.#pool.discard(connection)
  }

  protected override onConnected(): void {
    if (this.options.body) this.sending()
  }

  protected override destroy(): void {
    if (this.#abort) this.#abort()
    const connection = this.#giveUp()
    if (connection) this.#pool.discard(connection)
    else this.#pool.forget(this)
  }

  protected override isStale(error: Error): boolean {
    if (this.#hasAnswered) return false
    return isReset(error) || ('code' in error && error.code === 'UND_ERR_SOCKET')
  }

  protected override get isHeldBack(): boolean {
    return this.#connection?.isHeldBack ?? false
  }

  /** Its connection, which is its own no longer. */
  #giveUp(): UndiciConnection | undefined {
    const connection = this.#connection
    this.#connection = undefined
    return connection
  }
}

/** Undici frames a body without a length itself, and takes no word on it. */
function withoutFraming(headers: OutgoingHttpHeaders): OutgoingHttpHeaders {
  if (headers['transfer-encoding'] === undefined) return headers
  const { 'transfer-encoding': _, ...others } = headers
  return others
}

/** RFC 9110 §5.5: a field's bytes are Latin-1 where they are text at all. */
function toText(bytes: string | Buffer): string {
  return typeof bytes === 'string' ? bytes : bytes.toString('latin1')
}
