import type { ClientRequest } from 'node:http'
import type { Clock } from '../clock.ts'
import { inPairs } from '../http/header-fields.ts'
import { Exchange } from './exchange.ts'
import { upstreamResponse } from './responses.ts'
import type { Attempt, AttemptOptions, AttemptOutcome, OutgoingBody, OutgoingRequest } from './transport.ts'

/** One request to one upstream: connect, send the body, wait for the head; each phase has its own limit. */
export class HttpProxyAttempt extends Exchange<AttemptOutcome> implements Attempt {
  readonly #options: AttemptOptions

  constructor(request: OutgoingRequest, options: AttemptOptions, clock: Clock) {
    super(request, options.timeouts.connectMs, clock)
    this.#options = options
  }

  /** Called in the tick that made `clientRequest`, before anything of it is sent. */
  begin(clientRequest: ClientRequest): void {
    const { body, timeouts, onInformation } = this.#options
    clientRequest.once('response', (message) => {
      message.on('error', () => {}) // told by `close` without `complete`
      this.settle({ kind: 'responded', response: upstreamResponse(message) })
    })
    clientRequest.once('upgrade', (_message, socket) => {
      socket.destroy()
      this.fail(new Error('the upstream switched protocols though nobody asked it to'))
    })
    clientRequest.once('finish', () => {
      if (!this.settled) this.timer.start(timeouts.firstByteMs)
    })
    if (onInformation) {
      clientRequest.on('information', ({ statusCode, headers }) => {
        if (!this.settled) onInformation(statusCode, headers)
      })
    }
    // A request that waits for a free connection of the pool waits for a slow upstream.
    this.start(clientRequest, timeouts.firstByteMs, () => {
      if (body) this.#send(body, clientRequest)
      else clientRequest.end()
    })
  }

  override fail(error: Error): void {
    if (this.connected && this.clientRequest?.reusedSocket && isReset(error)) {
      this.settle({ kind: 'staleSocket', error })
    } else super.fail(error)
  }

  #send(body: OutgoingBody, clientRequest: ClientRequest): void {
    this.timer.start(this.#options.timeouts.idleMs)
    const source = body.open()
    source.on('data', () => this.timer.touch())
    source.once('end', () => {
      const trailers = body.trailers()
      if (trailers.length > 0) clientRequest.addTrailers(inPairs(trailers))
      clientRequest.end()
    })
    source.once('error', () => this.abort()) // the client broke off: nobody waits for an answer
    clientRequest.once('close', () => source.destroy())
    source.pipe(clientRequest, { end: false })
  }
}

function isReset(error: Error): boolean {
  return 'code' in error && (error.code === 'ECONNRESET' || error.code === 'EPIPE')
}
