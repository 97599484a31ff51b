import type { ClientRequest } from 'node:http'
import httpProxy from 'http-proxy'
import { ConnectionPools, type PoolOptions } from './connection-pools.ts'
import { HttpProxyAttempt } from './http-proxy-attempt.ts'
import { handOver, responseView, viewRequest } from './http-proxy-request.ts'
import { HttpProxyUpgrade } from './http-proxy-upgrade.ts'
import type { Deadlines } from './phase-timer.ts'
import type {
  Attempt,
  AttemptOptions,
  OutgoingRequest,
  Target,
  Transport,
  UpgradeAttempt,
  UpgradeOptions,
} from './transport.ts'

/** Passes of `http-proxy` that would touch framing, timeouts or headers: all three are ours. */
const unwantedPasses = new Set(['deleteLength', 'timeout', 'XHeaders'])

/** Carries attempts with `http-proxy`, its sharp edges taken off. */
export class HttpProxyTransport implements Transport {
  readonly #proxy = createTamedProxy()
  readonly #pools: ConnectionPools
  readonly #deadlines: Deadlines

  constructor(options: PoolOptions, deadlines: Deadlines) {
    this.#pools = new ConnectionPools(options)
    this.#deadlines = deadlines
  }

  send(request: OutgoingRequest, options: AttemptOptions): Attempt {
    const attempt = new HttpProxyAttempt(request, options, this.#deadlines)
    const { target } = request
    this.#proxy.web(
      viewRequest(request),
      responseView,
      {
        target: proxyTarget(target),
        toProxy: true,
        secure: true,
        agent: options.freshConnection ? this.#pools.freshAgentFor(target) : this.#pools.agentFor(target),
        buffer: handOver((clientRequest) => attempt.begin(clientRequest)),
        selfHandleResponse: true,
      },
      (error) => attempt.fail(error),
    )
    return attempt
  }

  upgrade(request: OutgoingRequest, options: UpgradeOptions): UpgradeAttempt {
    const upgrade = new HttpProxyUpgrade(request, options, this.#deadlines)
    // Emitted before `ws` returns, but not where that throws: nobody else's request must meet our listener.
    const begin = (clientRequest: ClientRequest) => upgrade.begin(clientRequest)
    this.#proxy.once('proxyReqWs', begin)
    try {
      this.#proxy.ws(
        viewRequest(request),
        options.socket,
        undefined,
        {
          target: proxyTarget(request.target),
          toProxy: true,
          secure: true,
          agent: this.#pools.freshAgentFor(request.target),
        },
        () => {}, // after the upgrade: the sockets' own events say it all, and without a callback the error is thrown
      )
    } finally {
      this.#proxy.off('proxyReqWs', begin)
    }
    upgrade.takeOver()
    return upgrade
  }

  retain(targets: readonly Target[]): void {
    this.#pools.retain(targets)
  }

  close(): void {
    this.#pools.close()
  }
}

/** The path is set on the client request itself, since `http-proxy` would normalise it on the way. */
function proxyTarget({ protocol, hostname, port }: Target): httpProxy.ServerOptions['target'] {
  return { protocol, host: hostname, hostname, port }
}

function createTamedProxy(): httpProxy {
  const proxy = httpProxy.createProxyServer({})
  // `webPasses` is not in the types: a list of named functions, run in turn for each request.
  const passes = proxy as unknown as { webPasses: { name: string }[] }
  passes.webPasses = passes.webPasses.filter((pass) => !unwantedPasses.has(pass.name))
  return proxy
}
