import type { Balancer } from '../balancer/balancer.ts'
import type { Config } from '../config.ts'
import type { Trust } from '../http/client-address.ts'
import type { ProxyEventEmitter } from '../observe/events.ts'
import type { RetryBudget } from '../retry/retry-budget.ts'
import type { TopologyRefresher } from '../retry/topology-refresher.ts'
import type { Transport } from '../transport/transport.ts'
import type { RoutingKey } from './routing-key.ts'
import type { StatusRules } from './verdict.ts'

/** What serving a request needs: the parts of one proxy, put together by the composition root. */
export interface Gateway {
  readonly config: Config
  readonly balancer: Balancer
  readonly transport: Transport
  readonly routingKey: RoutingKey
  readonly trust: Trust
  readonly budget: RetryBudget
  readonly refresher: TopologyRefresher
  readonly events: ProxyEventEmitter
  readonly statusRules: StatusRules
  /** Requests being served, and whether more are. */
  readonly admission: Admission
}

/** Counts what the proxy is serving, so that it can be limited and waited for. */
export class Admission {
  readonly #limit: number
  #idle: (() => void)[] = []
  #closing = false
  active = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  get closing(): boolean {
    return this.#closing
  }

  get full(): boolean {
    return this.active >= this.#limit
  }

  enter(): void {
    this.active += 1
  }

  leave(): void {
    this.active -= 1
    if (this.active === 0) for (const resolve of this.#idle.splice(0)) resolve()
  }

  /** Takes no more requests. Resolves when none is left. */
  close(): Promise<void> {
    this.#closing = true
    if (this.active === 0) return Promise.resolve()
    return new Promise((resolve) => this.#idle.push(resolve))
  }
}
