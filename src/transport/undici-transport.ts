import type { PoolOptions } from './connection-pools.ts'
import { HttpProxyTransport } from './http-proxy-transport.ts'
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
import { UndiciAttempt } from './undici-attempt.ts'
import { UndiciPool } from './undici-pool.ts'

/**
 * Carries attempts with undici's client. What that cannot do goes through `http-proxy`: upgrades, connections for one
 * request, `OPTIONS *`, and trailers of requests.
 */
export class UndiciTransport implements Transport {
  readonly #options: PoolOptions
  readonly #deadlines: Deadlines
  readonly #other: HttpProxyTransport
  readonly #pools = new Map<string, UndiciPool>()

  constructor(options: PoolOptions, deadlines: Deadlines) {
    this.#options = options
    this.#deadlines = deadlines
    this.#other = new HttpProxyTransport(options, deadlines)
  }

  send(request: OutgoingRequest, options: AttemptOptions): Attempt {
    if (options.freshConnection || request.path === '*' || request.headers.trailer !== undefined)
      return this.#other.send(request, options)
    return new UndiciAttempt(request, options, this.#deadlines, this.#poolFor(request.target))
  }

  upgrade(request: OutgoingRequest, options: UpgradeOptions): UpgradeAttempt {
    return this.#other.upgrade(request, options)
  }

  retain(targets: readonly Target[]): void {
    this.#other.retain(targets)
    const kept = new Set(targets.map(({ origin }) => origin))
    for (const [origin, pool] of this.#pools) {
      if (kept.has(origin)) continue
      this.#pools.delete(origin)
      pool.retire()
    }
  }

  close(): void {
    this.#other.close()
    for (const pool of this.#pools.values()) pool.close()
    this.#pools.clear()
  }

  #poolFor(target: Target): UndiciPool {
    let pool = this.#pools.get(target.origin)
    if (!pool) {
      pool = new UndiciPool(target, this.#options)
      this.#pools.set(target.origin, pool)
    }
    return pool
  }
}
