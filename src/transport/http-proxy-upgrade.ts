import type { ClientRequest, IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { Exchange } from './exchange.ts'
import type { Deadlines } from './phase-timer.ts'
import { MessageRefusal } from './responses.ts'
import type { OutgoingRequest, UpgradeAttempt, UpgradeOptions, UpgradeOutcome } from './transport.ts'
import { whenConnected } from './when-connected.ts'

/** One WebSocket handshake with one upstream. Until the sockets are joined, the client's may still go to another one. */
export class HttpProxyUpgrade extends Exchange<UpgradeOutcome> implements UpgradeAttempt {
  readonly #path: string
  readonly #options: UpgradeOptions
  #clientRequest: ClientRequest | undefined
  /** The upstream's socket, from its consent until it is joined. */
  #waiting: Duplex | undefined

  constructor(request: OutgoingRequest, options: UpgradeOptions, deadlines: Deadlines) {
    super(options.timeouts.connectMs, deadlines)
    this.#path = request.path
    this.#options = options
  }

  /** Called by `http-proxy` with the client request that it made and has not sent yet. */
  begin(clientRequest: ClientRequest): void {
    this.#clientRequest = clientRequest
    clientRequest.path = this.#path
    this.wait(this.#options.timeouts.connectMs)
    whenConnected(clientRequest, this)
  }

  protected override onConnected(): void {
    this.timer.start(this.#options.timeouts.handshakeMs)
  }

  /**
   * Called when `http-proxy` has hung its listeners on the request. They write to the client's socket, which another
   * upstream may still want: those for an error and for a refusal give way to ours, the one that joins the sockets
   * waits for `join`.
   */
  takeOver(): void {
    const clientRequest = this.#clientRequest
    if (!clientRequest) return
    const joiners = clientRequest.listeners('upgrade')
    clientRequest.removeAllListeners('error').on('error', (error) => this.fail(error))
    clientRequest.removeAllListeners('response').once('response', (message: IncomingMessage) => {
      this.settle({ kind: 'refused', response: new MessageRefusal(message) })
    })
    clientRequest.removeAllListeners('upgrade').once('upgrade', (message, upstream, upstreamHead) => {
      upstream.on('error', () => {}) // told by `close`
      this.#waiting = upstream
      this.settle({
        kind: 'upgraded',
        rawHeaders: message.rawHeaders,
        join: (headers) => {
          this.#waiting = undefined
          message.headers = headers as IncomingHttpHeaders // what http-proxy writes the 101 from
          for (const join of joiners) join.call(clientRequest, message, upstream, upstreamHead)
          return this.#untilClosed(upstream)
        },
      })
    })
  }

  protected override destroy(): void {
    this.#clientRequest?.destroy()
    this.#waiting?.destroy() // Node's request let go of it with the upgrade
  }

  /**
   * Resolves when the upstream's socket is gone. The client's goes with it: at once, or behind a clean end when all that
   * the upstream said has been sent.
   */
  #untilClosed(upstream: Duplex): Promise<void> {
    const { socket } = this.#options
    if (socket.destroyed) upstream.destroy()
    else socket.once('close', () => upstream.destroy())
    return new Promise((resolve) => {
      upstream.once('close', () => {
        if (upstream.readableEnded) socket.resume()
        else socket.destroy()
        resolve()
      })
    })
  }
}
