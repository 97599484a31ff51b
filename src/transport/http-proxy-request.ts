import { EventEmitter } from 'node:events'
import type { ClientRequest, IncomingMessage, ServerResponse } from 'node:http'
import { Stream } from 'node:stream'
import type { OutgoingRequest } from './transport.ts'

/**
 * What `http-proxy` reads of a client's request, and nothing else.
 *
 * The client's own request is kept from it: http-proxy copies its headers whole (hop-by-hop and forged ones too),
 * hangs listeners on it with each attempt, and rewrites its framing (`DELETE` with a chunked body became a
 * smuggled second request). Here it sees what the upstream shall see.
 */
class RequestView extends EventEmitter {
  readonly method: string
  readonly url: string
  readonly headers: OutgoingRequest['headers']
  readonly httpVersion = '1.1'
  readonly socket = { destroyed: false }

  constructor(request: OutgoingRequest) {
    super()
    this.method = request.method
    this.url = request.path
    this.headers = request.headers
  }
}

/** `http-proxy` asks this before it would write an answer itself, which `selfHandleResponse` forbids it. */
const responseView = { headersSent: false, finished: false }

/**
 * The casts: `http-proxy`'s types ask for whole Node objects where its code reads these few fields
 * (version 1.18.1, which is final; the transport's tests would notice).
 */
export const viewRequest = (request: OutgoingRequest) =>
  new RequestView(request) as unknown as IncomingMessage
export const viewResponse = () => ({ ...responseView }) as unknown as ServerResponse

/**
 * Stands in for the request's body. `http-proxy` calls `pipe` with the client request in the tick that made it:
 * early enough to set the exact path, which http-proxy would normalise (`//a` → `/a`), and to listen before it does;
 * the real body then starts when the connection stands.
 */
export class RequestHandover extends Stream {
  readonly #take: (request: ClientRequest) => void

  constructor(take: (request: ClientRequest) => void) {
    super()
    this.#take = take
  }

  override pipe<T extends NodeJS.WritableStream>(destination: T): T {
    this.#take(destination as unknown as ClientRequest) // what http-proxy pipes into is always its ClientRequest
    return destination
  }
}
