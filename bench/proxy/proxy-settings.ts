import type { Server } from 'node:net'
import type { ConsistentHashProxyOptions } from '../../src/index.ts'

/** What a proxy's process is told. */
export interface ProxySettings {
  readonly kind: 'ours' | 'http-proxy' | 'undici' | 'fastify' | 'http-proxy-middleware'
  /** Ports of the upstreams, on loopback. */
  readonly upstreams: readonly number[]
  /** For http-proxy-middleware: give it an agent that keeps connections, which it has not by itself. */
  readonly keepAlive?: boolean
  /** For ours: the checkout whose built package runs, and what differs from the defaults. */
  readonly checkout?: string
  readonly options?: Pick<ConsistentHashProxyOptions, 'transport' | 'metrics'>
}

/** Makes a proxy's server, which does not listen yet. */
export type CreateProxy = (settings: ProxySettings) => Promise<Server>

/** Which upstream comes next, for those that have no hashing of their own: costs them nothing to speak of. */
export function roundRobin<T>(values: readonly T[]): () => T {
  let next = 0
  return () => {
    const value = values[next++ % values.length]
    if (value === undefined) throw new RangeError('Expected at least one upstream, got none')
    return value
  }
}

/** What our own connection pool uses, so that nobody wins by its sockets. */
export const agentOptions = { keepAlive: true, maxSockets: 256, maxFreeSockets: 256, timeout: 60_000 }
