import { type AgentOptions, Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import { isIP } from 'node:net'
import type { UpstreamTlsOptions } from '../options.ts'
import type { Target } from './transport.ts'

export interface PoolOptions {
  /** Connections to one upstream; further requests wait. */
  readonly connectionsPerUpstream: number
  /** Milliseconds after which an idle connection is closed, or a second before the upstream says that it will. */
  readonly idleMs: number
  readonly tls: UpstreamTlsOptions
}

/** One keep-alive agent for each upstream address. */
export class ConnectionPools {
  readonly #agents = new Map<string, HttpAgent>()
  readonly #options: PoolOptions

  constructor(options: PoolOptions) {
    this.#options = options
  }

  agentFor(target: Target): HttpAgent {
    const origin = originOf(target)
    let agent = this.#agents.get(origin)
    if (!agent) {
      const { connectionsPerUpstream: maxSockets, idleMs: timeout } = this.#options
      // With a timeout of its own Node's agent also keeps to the upstream's (`Keep-Alive: timeout=5`).
      agent = this.#create(target, { keepAlive: true, maxSockets, maxFreeSockets: maxSockets, timeout })
      this.#agents.set(origin, agent)
    }
    return agent
  }

  /** An agent for one request on a connection of its own. */
  freshAgentFor(target: Target): HttpAgent {
    return this.#create(target, { keepAlive: false })
  }

  retain(targets: readonly Target[]): void {
    const kept = new Set(targets.map(originOf))
    for (const [origin, agent] of this.#agents) {
      if (kept.has(origin)) continue
      this.#agents.delete(origin)
      // Requests in flight keep their sockets; from here on none is left open behind an answer.
      agent.maxFreeSockets = 0
      for (const sockets of Object.values(agent.freeSockets))
        for (const socket of sockets ?? []) socket.destroy()
    }
  }

  close(): void {
    for (const agent of this.#agents.values()) agent.destroy()
    this.#agents.clear()
  }

  #create(target: Target, options: AgentOptions): HttpAgent {
    if (target.protocol === 'http:') return new HttpAgent(options)
    const { ca, cert, key, servername } = this.#options.tls
    return new HttpsAgent({
      ...options,
      ...(ca === undefined ? {} : { ca }),
      ...(cert === undefined ? {} : { cert }),
      ...(key === undefined ? {} : { key }),
      // Never left to Node, which would take the `Host` that a client sent: for verification and as part of the pool's name.
      servername: servername ?? (isIP(target.hostname) ? '' : target.hostname),
    })
  }
}

function originOf(target: Target): string {
  return `${target.protocol}//${target.host}`
}
