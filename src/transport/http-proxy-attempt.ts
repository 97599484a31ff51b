import type { ClientRequest, IncomingMessage } from 'node:http'
import { noteKeepAlive } from './connection-pools.ts'
import { Exchange } from './exchange.ts'
import type { Deadlines } from './phase-timer.ts'
import { MessageResponse } from './responses.ts'
import type { Attempt, AttemptOptions, AttemptOutcome, OutgoingBody, OutgoingRequest } from './transport.ts'

/** One request to one upstream: connect, send the body, wait for the head; each phase has its own limit. */
export class HttpProxyAttempt extends Exchange<AttemptOutcome> implements Attempt {
  readonly #options: AttemptOptions
  readonly #deadlines: Deadlines
  #sendingSince: number | undefined
  #isBroken = false

  constructor(request: OutgoingRequest, options: AttemptOptions, deadlines: Deadlines) {
    super(request, options.timeouts.connectMs, deadlines, options.totalMs)
    this.#options = options
    this.#deadlines = deadlines
  }

  /** Called in the tick that made `clientRequest`, before anything of it is sent. */
  begin(clientRequest: ClientRequest): void {
    const { body, timeouts, onInformation } = this.#options
    clientRequest.on('response', (message) => this.#respond(message))
    clientRequest.on('upgrade', (_message, socket) => {
      socket.destroy()
      this.fail(new Error('the upstream switched protocols though nobody asked it to'))
    })
    if (body) clientRequest.once('finish', () => this.#sent())
    if (onInformation) {
      clientRequest.on('information', ({ statusCode, headers }) => {
        if (!this.settled) onInformation(statusCode, headers)
      })
    }
    // A request that waits for a free connection of the pool waits for a slow upstream.
    this.start(clientRequest, timeouts.firstByteMs)
  }

  protected override onConnected(): void {
    const { body } = this.#options
    const { clientRequest } = this
    if (!clientRequest) return
    if (body) this.#send(body, clientRequest)
    else {
      clientRequest.end()
      this.#sent()
    }
  }

  override fail(error: Error): void {
    this.#isBroken = true
    if (this.onReusedConnection && isReset(error)) this.settle({ kind: 'staleSocket', error })
    else super.fail(error)
  }

  protected override tooLate(): ReturnType<Exchange<AttemptOutcome>['tooLate']> {
    const clientIsSlow = this.#sendingSince !== undefined && !this.clientRequest?.writableNeedDrain
    return clientIsSlow ? { kind: 'bodyStalled' } : super.tooLate()
  }

  #send(body: OutgoingBody, clientRequest: ClientRequest): void {
    this.#sendingSince = this.#deadlines.now()
    this.timer.start(this.#options.timeouts.idleMs)
    const source = body.open()
    source.on('data', () => this.timer.touch())
    source.once('end', () => {
      clientRequest.addTrailers(body.trailers())
      clientRequest.end()
    })
    source.once('error', () => this.abort()) // the client broke off: nobody waits for an answer
    clientRequest.once('close', () => source.destroy())
    source.pipe(clientRequest, { end: false })
  }

  #sent(): void {
    if (this.settled) return
    if (this.#sendingSince !== undefined) this.prolong(this.#deadlines.now() - this.#sendingSince)
    this.#sendingSince = undefined
    this.wait(this.#options.timeouts.firstByteMs)
  }

  #respond(message: IncomingMessage): void {
    noteKeepAlive(message)
    const response = new MessageResponse(message, () => this.#isBroken)
    if (response.status >= 100) this.settle({ kind: 'responded', response })
    else {
      // Node's parser takes any three digits, but its server throws on these.
      this.fail(new Error(`expected a status from 100 to 999, got ${response.status}`))
      message.destroy()
    }
  }
}

function isReset(error: Error): boolean {
  return 'code' in error && (error.code === 'ECONNRESET' || error.code === 'EPIPE')
}
