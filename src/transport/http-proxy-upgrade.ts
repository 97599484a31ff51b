import type { ClientRequest, IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Clock } from '../clock.ts'
import { Exchange } from './exchange.ts'
import { upstreamResponse } from './responses.ts'
import type { OutgoingRequest, UpgradeAttempt, UpgradeOptions, UpgradeOutcome } from './transport.ts'

/** One WebSocket handshake with one upstream. Until it succeeds, the client's socket may still go to another one. */
export class HttpProxyUpgrade extends Exchange<UpgradeOutcome> implements UpgradeAttempt {
  readonly #options: UpgradeOptions

  constructor(request: OutgoingRequest, options: UpgradeOptions, clock: Clock) {
    super(request, options.timeouts.connectMs, clock)
    this.#options = options
  }

  /** Called by `http-proxy` with the client request that it made and has not sent yet. */
  begin(clientRequest: ClientRequest): void {
    const { connectMs, handshakeMs } = this.#options.timeouts
    this.start(clientRequest, connectMs, () => this.timer.start(handshakeMs))
  }

  /**
   * Called when `http-proxy` has hung its listeners on the request. Those for an error and for a refusal write to and
   * end the client's socket, which another upstream may still want: they give way to ours. The one that joins the
   * sockets stays.
   */
  takeOver(): void {
    const { clientRequest } = this
    if (!clientRequest) return
    clientRequest.removeAllListeners('error').on('error', (error) => this.fail(error))
    clientRequest.removeAllListeners('response').once('response', (message: IncomingMessage) => {
      message.on('error', () => {}) // told by `close` without `complete`
      this.settle({ kind: 'refused', response: upstreamResponse(message) })
    })
    clientRequest.prependOnceListener('upgrade', (message, upstreamSocket) => {
      const { socket, head, onUpgraded } = this.#options
      onUpgraded?.(message.headers)
      if (head.length > 0) socket.unshift(head)
      this.settle({ kind: 'upgraded', closed: bothClosed(socket, upstreamSocket) })
    })
  }
}

/** Resolves when both are closed; the end of one is the end of the other. */
function bothClosed(client: Duplex, upstream: Duplex): Promise<void> {
  const closed = (socket: Duplex, other: Duplex) =>
    new Promise<void>((resolve) => {
      const done = () => {
        other.destroy()
        resolve()
      }
      if (socket.closed) done()
      else socket.once('close', done)
    })
  return Promise.all([closed(client, upstream), closed(upstream, client)]).then(() => {})
}
