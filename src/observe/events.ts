import { EventEmitter } from 'node:events'
import type { EjectionCause } from '../breaker/circuit-breaker.ts'
import type { RefusalReason } from '../errors.ts'

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
  sourceLost: [event: { error: string }]
  sourceRegained: []
  /** One entry of the topology was refused. */
  refused: [event: { entry: string; reason: RefusalReason; message: string }]
  /** A request came without a key. */
  missingKey: []
  /** A request ended. `upstream` is that of the last attempt, if there was one. */
  request: [
    event: { upstream: string | undefined; status: number; milliseconds: number; outcome: RequestOutcome },
  ]
}

/** How a request ended for the client. */
export type RequestOutcome = 'answered' | 'failed' | 'broken' | 'client-gone'

/** The events of one proxy. Listeners that throw do so in the tick of what they listen to: do not. */
export class ProxyEventEmitter extends EventEmitter<ProxyEvents> {}
