import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Registry } from 'prom-client'
import { parseOptions } from './config.ts'
import { OptionsError } from './errors.ts'
import type { ProxyEvents } from './observe/events.ts'
import type { ProxyStatus } from './observe/status.ts'
import type { ConsistentHashProxyOptions } from './options.ts'
import { createParts } from './parts.ts'
import { ignoreOffer } from './proxy/ignore-offer.ts'
import { serve } from './proxy/serve.ts'
import { isBelow, offersWebSocket, serveUpgrade } from './proxy/upgrade.ts'

/** A Connect middleware with what else a gateway wants of it. */
export interface ConsistentHashProxy {
  /** Forwards the request to its upstream, and answers itself where that fails; `next` is never called. */
  (request: IncomingMessage, response: ServerResponse, next?: (error?: unknown) => void): void
  /**
   * Listener for a server's `upgrade` event (WebSocket). An upgrade that is not below `mountPath` is left alone; a
   * request that offers another protocol is served without it.
   * @throws OptionsError on access when the key cannot be read from an upgrade (a route parameter, the body)
   */
  readonly upgrade: (request: IncomingMessage, socket: Duplex, head: Buffer) => void
  /** The registry that the metrics are in; undefined with `metrics: false`. */
  readonly metrics: Registry | undefined
  /** Resolves when the first topology is in use. Rejects with `ClosedError` when the proxy is closed before. */
  ready(): Promise<void>
  /** What the proxy knows just now, as a plain object. */
  status(): ProxyStatus
  on<Name extends keyof ProxyEvents>(event: Name, listener: (...args: ProxyEvents[Name]) => void): this
  off<Name extends keyof ProxyEvents>(event: Name, listener: (...args: ProxyEvents[Name]) => void): this
  /**
   * Takes no more requests, waits for those in flight up to `timeouts.drainMs`, then stops the watch and closes every
   * connection. Leaves no handle open. Idempotent.
   */
  close(): Promise<void>
}

/**
 * Makes a middleware that sends every request of one key to the same upstream, keeps each upstream's load bounded, and
 * follows the cluster through its topology source.
 *
 * @throws OptionsError naming the option, what was expected and what was given
 */
export function consistentHashProxy(options: ConsistentHashProxyOptions): ConsistentHashProxy {
  const config = parseOptions(options)
  const parts = createParts(config)
  const { gateway } = parts
  const { source } = gateway.routingKey
  // Node calls a listener on the server that it listens to.
  const upgrade = function (this: unknown, request: IncomingMessage, socket: Duplex, head: Buffer) {
    if (!isBelow(config.mountPath, request.url)) return
    if (!offersWebSocket(request) && ignoreOffer(this, request, socket, head)) return
    void serveUpgrade(gateway, request, socket, head)
  }
  const handler = function consistentHashProxy(request: IncomingMessage, response: ServerResponse) {
    void serve(gateway, request, response)
  }
  const members = {
    get upgrade() {
      if (source.worksForUpgrade) return upgrade
      throw new OptionsError(
        `Expected \`key\` to be one that works for upgrades, got '${source.description}': ` +
          'an upgrade has neither route parameters nor a body',
      )
    },
    metrics: parts.registry,
    ready: () => gateway.readiness.ready,
    status: parts.status,
    on(event: keyof ProxyEvents, listener: () => void) {
      gateway.events.on(event, listener)
      return proxy
    },
    off(event: keyof ProxyEvents, listener: () => void) {
      gateway.events.off(event, listener)
      return proxy
    },
    close: parts.close,
  }
  const proxy: ConsistentHashProxy = Object.defineProperties(
    handler,
    Object.getOwnPropertyDescriptors(members),
  ) as typeof handler & typeof members
  return proxy
}
