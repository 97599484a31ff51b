import type { ClientRequest, IncomingMessage, ServerResponse } from 'node:http'
import type { Stream } from 'node:stream'
import type { OutgoingRequest } from './transport.ts'

/**
 * What `http-proxy` reads of a client's request, and nothing else.
 *
 * The client's own request is kept from it: http-proxy copies its headers whole (hop-by-hop and forged ones too),
 * hangs listeners on it with each attempt, and rewrites its framing (`DELETE` with a chunked body became a
 * smuggled second request). Here it sees what the upstream shall see, and its listeners, which wait for the client to
 * break off, hear nothing: that is told to the attempt itself.
 */
class RequestView {
  readonly method: string
  readonly url: string
  readonly headers: OutgoingRequest['headers']
  readonly httpVersion = '1.1'
  readonly socket = openSocket

  constructor({ method, path, headers }: OutgoingRequest) {
    this.method = method
    this.url = path
    this.headers = headers
  }

  on(): this {
    return this
  }
}

const openSocket = { destroyed: false }

/**
 * Stands in for the request's body. `http-proxy` calls `pipe` with the client request in the tick that made it:
 * early enough to set the exact path, which http-proxy would normalise (`//a` → `/a`), and to listen before it does;
 * the real body then starts when the connection stands.
 */
class RequestHandover {
  readonly #take: (request: ClientRequest) => void

  constructor(take: (request: ClientRequest) => void) {
    this.#take = take
  }

  pipe(destination: ClientRequest): void {
    this.#take(destination)
  }
}

/*
 * The casts: `http-proxy`'s types ask for whole Node objects where its code uses these few members (version 1.18.1,
 * which is final; the transport's tests would notice).
 */
export const viewRequest = (request: OutgoingRequest) =>
  new RequestView(request) as unknown as IncomingMessage
export const handOver = (take: (request: ClientRequest) => void) =>
  new RequestHandover(take) as unknown as Stream

/**
 * `http-proxy` asks it whether the answer has begun or is over before it would write one itself, or hang a listener on
 * the upstream's to tell of its end: neither is wanted.
 */
export const responseView = { headersSent: false, finished: true } as unknown as ServerResponse
