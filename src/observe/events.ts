import { EventEmitter } from 'node:events'
import type { EjectionCause } from '../breaker/circuit-breaker.ts'
import type { RefusalReason } from '../errors.ts'
import type { Logger } from '../logger.ts'

/** Why a request was tried again. */
export type RetryReason = 'connect' | 'misdirected' | 'reset' | 'timeout' | 'status' | 'stale-socket'

/** Why an attempt could not be retried though it failed. */
export type GiveUpReason =
  | 'attempts'
  | 'budget'
  | 'not-idempotent'
  | 'body-consumed'
  | 'deadline'
  | 'no-upstream'

/** Why the topology may be stale. */
export type StaleSign = 'connect' | 'misdirected' | 'newer-revision'

/** The typed events of a proxy: name → arguments of the listener. */
export interface ProxyEvents {
  /** A new topology is live. Ids of those that came, left, or changed. */
  topology: [
    change: {
      revision: bigint
      epoch: number
      digest: string
      added: string[]
      removed: string[]
      changed: string[]
      buildMilliseconds: number
    },
  ]
  /** An upstream was taken out of choice. */
  ejection: [event: { upstream: string; cause: EjectionCause }]
  /** An ejected upstream is back. */
  recovery: [event: { upstream: string }]
  /** The owner was too loaded; `rank` is 2 for the second owner. */
  overflow: [event: { upstream: string; owner: string; rank: number }]
  /** A retry found every upstream full and took the least loaded one. */
  overCapacity: [event: { upstream: string }]
  /** A request is tried again after `attempt` at `upstream` failed. */
  retry: [event: { upstream: string; attempt: number; reason: RetryReason }]
  /** A failed request was not tried again. */
  giveUp: [event: { upstream: string; attempt: number; reason: GiveUpReason }]
  /** An upstream showed that the topology may be stale; `confirmed` once a newer one was found. */
  staleTopology: [event: { upstream: string; sign: StaleSign; confirmed: boolean }]
  /** The topology source is away: lost, or not reached since the start. Again when the error becomes another. */
  sourceLost: [event: { error: string }]
  /** The topology source is back. */
  sourceRegained: []
  /** One entry of the topology was refused. */
  refused: [event: { entry: string; reason: RefusalReason; message: string }]
  /**
   * Too many upstreams disappeared from the source at once: these are served on for a while. Again whenever they
   * become others; none when it is over.
   */
  held: [event: { upstreams: readonly string[] }]
  /**
   * These gateways, by their ids, place keys otherwise than this one: with another seed, say. Again whenever they
   * become others; none when all agree.
   */
  digestMismatch: [event: { gateways: readonly string[] }]
  /** A request came without a key. */
  missingKey: []
  /** A request ended. `upstream` is that of the last attempt, if there was one. */
  request: [
    event: { upstream: string | undefined; status: number; milliseconds: number; outcome: RequestOutcome },
  ]
}

/** How a request ended for the client. */
export type RequestOutcome = 'answered' | 'failed' | 'broken' | 'client-gone'

/**
 * The events of one proxy. They are told in the midst of choosing and forwarding, so what a listener throws, or
 * rejects with, is logged and goes no further: neither to what it listens to nor to the other listeners.
 */
export class ProxyEventEmitter extends EventEmitter<ProxyEvents> {
  readonly #logger: Logger

  constructor(logger: Logger) {
    super()
    this.#logger = logger
  }

  override emit<Name extends keyof ProxyEvents>(event: Name, ...details: ProxyEvents[Name]): boolean {
    const listeners = this.rawListeners(event)
    for (const listener of listeners) {
      try {
        const result: unknown = Reflect.apply(listener, this, details)
        if (result instanceof Promise) result.catch((error) => this.#logFault(event, error))
      } catch (error) {
        this.#logFault(event, error)
      }
    }
    return listeners.length > 0
  }

  #logFault(event: string, error: unknown): void {
    this.#logger.error({ err: error, event }, 'a listener of the proxy failed')
  }
}
