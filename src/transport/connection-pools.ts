import { type AgentOptions, Agent as HttpAgent, type IncomingMessage } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import { isIP, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { valuesOf } from '../http/header-fields.ts'
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
    let agent = this.#agents.get(target.origin)
    if (!agent) {
      const { connectionsPerUpstream: maxSockets, idleMs } = this.#options
      agent = this.#create(target, { keepAlive: true, maxSockets, maxFreeSockets: maxSockets })
      agent.keepSocketAlive = (socket) => keepIdle(socket, idleMs)
      this.#agents.set(target.origin, agent)
    }
    return agent
  }

  /** An agent for one request on a connection of its own. */
  freshAgentFor(target: Target): HttpAgent {
    return this.#create(target, { keepAlive: false })
  }

  retain(targets: readonly Target[]): void {
    const kept = new Set(targets.map(({ origin }) => origin))
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
    // Without a name for TLS, which is not spoken here, Node looks for one with each request.
    if (target.protocol === 'http:') return new HttpAgent({ ...options, servername: '' } as AgentOptions)
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

/** Milliseconds of silence after which TCP asks whether the other side is still there. Node's own agents have it so. */
export const pooledSocketKeepAliveMs = 1_000

/** How long each upstream's connection may be idle by its own word, in milliseconds. */
const announced = new WeakMap<Socket, number>()

/** Takes an upstream's word on how long it keeps an idle connection (`Keep-Alive: timeout=5`). */
export function noteKeepAlive({ socket, rawHeaders }: IncomingMessage): void {
  const seconds = /\btimeout=(\d+)/.exec(valuesOf(rawHeaders, 'keep-alive') ?? '')?.[1]
  if (seconds !== undefined && announced.get(socket) !== Number(seconds) * 1_000)
    announced.set(socket, Number(seconds) * 1_000)
}

/** What is between our sending and the upstream's closing: a second is Node's own measure from version 24 on. */
export const marginMs = 1_000

/**
 * Keeps a connection for the next request, for as long as it may be idle. In place of Node's, which sets and takes off
 * timeouts with each request.
 */
function keepIdle(socket: Duplex, longestMs: number): boolean {
  if (!(socket instanceof Socket)) return false
  const idleMs = Math.min(longestMs, (announced.get(socket) ?? Number.POSITIVE_INFINITY) - marginMs)
  if (idleMs <= 0) return false
  if (socket.timeout !== idleMs) socket.setTimeout(idleMs)
  socket.setKeepAlive(true, pooledSocketKeepAliveMs)
  socket.unref()
  return true
}
