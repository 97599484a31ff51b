import { Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import type { UpstreamTlsOptions } from '../options.ts'
import type { Target } from './transport.ts'

/** One keep-alive agent for each upstream address. */
export class ConnectionPools {
  readonly #agents = new Map<string, HttpAgent>()
  readonly #connectionsPerUpstream: number
  readonly #tls: UpstreamTlsOptions

  constructor(connectionsPerUpstream: number, tls: UpstreamTlsOptions) {
    this.#connectionsPerUpstream = connectionsPerUpstream
    this.#tls = tls
  }

  agentFor(target: Target): HttpAgent {
    const origin = originOf(target)
    let agent = this.#agents.get(origin)
    if (!agent) {
      agent = this.#create(target, { keepAlive: true, maxSockets: this.#connectionsPerUpstream })
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

  #create(target: Target, options: { keepAlive: boolean; maxSockets?: number }): HttpAgent {
    if (target.protocol === 'http:') return new HttpAgent(options)
    const { ca, cert, key, servername } = this.#tls
    return new HttpsAgent({
      ...options,
      ...(ca === undefined ? {} : { ca }),
      ...(cert === undefined ? {} : { cert }),
      ...(key === undefined ? {} : { key }),
      ...(servername === undefined ? {} : { servername }),
    })
  }
}

function originOf(target: Target): string {
  return `${target.protocol}//${target.host}`
}
