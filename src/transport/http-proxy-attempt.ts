import type { ClientRequest, IncomingMessage } from 'node:http'
import { noteKeepAlive } from './connection-pools.ts'
import type { Deadlines } from './phase-timer.ts'
import { isReset, RequestExchange } from './request-exchange.ts'
import { MessageResponse } from './responses.ts'
import {
  type AttemptOptions,
  impossibleStatus,
  type OutgoingBody,
  type OutgoingRequest,
} from './transport.ts'
import { whenConnected } from './when-connected.ts'

/** One request that Node's client sends for `http-proxy`. */
export class HttpProxyAttempt extends RequestExchange {
  readonly #path: string
  #clientRequest: ClientRequest | undefined
  #isBroken = false

  constructor({ path }: OutgoingRequest, options: AttemptOptions, deadlines: Deadlines) {
    super(options, deadlines)
    this.#path = path
  }

  /** Called in the tick that made `clientRequest`, before anything of it is sent. */
  begin(clientRequest: ClientRequest): void {
    const { body, timeouts, onInformation } = this.options
    this.#clientRequest = clientRequest
    clientRequest.path = this.#path
    clientRequest.on('response', (message) => this.#respond(message))
    clientRequest.on('upgrade', (_message, socket) => {
      socket.destroy()
      this.fail(new Error('the upstream switched protocols though nobody asked it to'))
    })
    if (body) clientRequest.once('finish', () => this.sent())
    if (onInformation) {
      clientRequest.on('information', ({ statusCode, rawHeaders }) => {
        if (!this.settled) onInformation(statusCode, rawHeaders)
      })
    }
    // A request that waits for a free connection of the pool waits for a slow upstream.
    this.wait(timeouts.firstByteMs)
    whenConnected(clientRequest, this)
  }

  override fail(error: Error): void {
    this.#isBroken = true
    super.fail(error)
  }

  protected override onConnected(): void {
    const { body } = this.options
    if (!this.#clientRequest) return
    if (body) this.#send(body, this.#clientRequest)
    else {
      this.#clientRequest.end()
      this.sent()
    }
  }

  protected override destroy(): void {
    this.#clientRequest?.destroy()
  }

  protected override isStale(error: Error): boolean {
    return isReset(error)
  }

  protected override get isHeldBack(): boolean {
    return this.#clientRequest?.writableNeedDrain ?? false
  }

  #send(body: OutgoingBody, clientRequest: ClientRequest): void {
    this.sending()
    const source = this.open(body)
    source.on('data', () => this.timer.touch())
    source.once('end', () => {
      clientRequest.addTrailers(body.trailers())
      clientRequest.end()
    })
    clientRequest.once('close', () => source.destroy())
    source.pipe(clientRequest, { end: false })
  }

  #respond(message: IncomingMessage): void {
    noteKeepAlive(message)
    const response = new MessageResponse(message, () => this.#isBroken)
    const impossible = impossibleStatus(response.status)
    if (!impossible) this.settle({ kind: 'responded', response })
    else {
      this.fail(impossible)
      message.destroy()
    }
  }
}
