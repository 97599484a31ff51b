import type { IncomingMessage } from 'node:http'
import type { BodySink, ResponseHead, UpgradeRefusal, UpstreamResponse } from './transport.ts'

/** The head of Node's incoming message as the transport-neutral one. */
abstract class MessageHead implements ResponseHead {
  readonly status: number
  readonly statusText: string
  readonly rawHeaders: readonly string[]
  protected readonly message: IncomingMessage

  constructor(message: IncomingMessage) {
    this.message = message
    this.status = message.statusCode ?? 502
    this.statusText = reasonPhrase(message.statusMessage ?? '')
    this.rawHeaders = message.rawHeaders
    message.on('error', ignore) // told by `close` without `complete`
  }
}

/** An answer that Node's client received. */
export class MessageResponse extends MessageHead implements UpstreamResponse {
  readonly #isBroken: () => boolean

  /** `isBroken`: whether its connection has failed. */
  constructor(message: IncomingMessage, isBroken: () => boolean) {
    super(message)
    this.#isBroken = isBroken
  }

  start(sink: BodySink): void {
    const { message } = this
    let isOver = false
    const close = () => {
      if (isOver) return
      isOver = true
      sink.break()
    }
    if (message.destroyed) {
      close()
      return
    }
    message.on('data', (chunk: Buffer) => {
      if (!sink.write(chunk)) message.pause()
    })
    message.on('end', () => {
      if (isOver || !this.#isComplete()) return close()
      isOver = true
      sink.end(message.rawTrailers)
    })
    message.on('close', close)
  }

  resume(): void {
    this.message.resume()
  }

  /** Node takes every end of the connection for the end of a body that nothing else ends, a reset too. */
  #isComplete(): boolean {
    const { complete, headers } = this.message
    if (!complete) return false
    return (
      headers['content-length'] !== undefined ||
      headers['transfer-encoding'] !== undefined ||
      !this.#isBroken()
    )
  }
}

/** A refused upgrade that Node's client received. */
export class MessageRefusal extends MessageHead implements UpgradeRefusal {
  get body(): IncomingMessage {
    return this.message
  }
}

/** RFC 9112 §4: what a server may not write is left out, since the phrase means nothing to anybody. */
export function reasonPhrase(text: string): string {
  return /[^\t\x20-\x7e\x80-\xff]/.test(text) ? '' : text
}

const ignore = () => {}
