import type { Balancer } from '../balancer/balancer.ts'
import type { Clock } from '../clock.ts'
import type { Config } from '../config.ts'
import type { Trust } from '../http/client-address.ts'
import type { ProxyEventEmitter } from '../observe/events.ts'
import type { RetryBudget } from '../retry/retry-budget.ts'
import type { TopologyRefresher } from '../retry/topology-refresher.ts'
import type { Deadlines } from '../transport/phase-timer.ts'
import type { AttemptTimeouts, Transport } from '../transport/transport.ts'
import { UnorderedList } from '../unordered-list.ts'
import type { Client } from './client.ts'
import { type Failure, failures } from './failure.ts'
import type { Readiness } from './readiness.ts'
import type { RoutingKey } from './routing-key.ts'
import type { StatusRules } from './verdict.ts'

/** What serving a request needs: the parts of one proxy, put together by the composition root. */
export interface Gateway {
  readonly config: Config
  readonly balancer: Balancer
  readonly transport: Transport
  readonly attemptTimeouts: AttemptTimeouts
  readonly deadlines: Deadlines
  readonly routingKey: RoutingKey
  readonly trust: Trust
  readonly budget: RetryBudget
  readonly refresher: TopologyRefresher
  readonly events: ProxyEventEmitter
  readonly statusRules: StatusRules
  readonly readiness: Readiness
  /** Requests being served, and whether more are. */
  readonly admission: Admission
}

/** Counts what the proxy is serving, so that it can be limited and waited for. */
export class Admission {
  readonly #limit: number
  #onIdle: (() => void) | undefined
  #closing = false
  readonly #served = new UnorderedList<Client>()
  #longLived = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  /** Why no further request is taken just now. */
  get refusal(): Failure | undefined {
    if (this.#closing) return failures.closing
    return this.#served.size - this.#longLived >= this.#limit ? failures.overloaded : undefined
  }

  enter(client: Client): void {
    this.#served.add(client)
  }

  /** It stays for long, and is held against a limit of its own from here on. */
  exempt(client: Client): void {
    if (!client.isLongLived) this.#longLived += 1
    client.isLongLived = true
  }

  leave(client: Client): void {
    this.#served.remove(client)
    if (client.isLongLived) this.#longLived -= 1
    if (this.#served.size === 0) this.#onIdle?.()
  }

  /** Takes no more requests, and waits for those being served; breaks off those that last longer than `longestMs`. */
  close(clock: Clock, longestMs: number): Promise<void> {
    this.#closing = true
    if (this.#served.size === 0) return Promise.resolve()
    return new Promise((resolve) => {
      const timer = clock.setTimeout(() => {
        for (const client of this.#served) client.breakOff()
      }, longestMs)
      this.#onIdle = () => {
        timer.cancel()
        resolve()
      }
    })
  }
}
