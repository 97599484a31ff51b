import type { FailureKind } from '../breaker/circuit-breaker.ts'
import type { GiveUpReason, RetryReason } from '../observe/events.ts'
import type { HeadOutcome } from '../transport/transport.ts'

/** What has to be known of a request to judge its outcome. */
export interface RequestFacts {
  /** The method is idempotent (RFC 9110 §9.2.2) or the client sent an `Idempotency-Key`. */
  readonly idempotent: boolean
  /** The body can be sent again from its first byte. */
  readonly replayable: boolean
  /** This attempt is the one replay behind a stale keep-alive socket. */
  readonly isReplay: boolean
  /** A retry that the deadline left less time than attempts have otherwise. */
  readonly hurried: boolean
}

/** What the settings say about statuses. */
export interface StatusRules {
  readonly failureStatuses: ReadonlySet<number>
  readonly retryStatuses: ReadonlySet<number>
}

/** What the outcome means to the upstream's breaker. `undefined`: nothing is known before the body's end. */
export type HealthVerdict = FailureKind | 'ignore' | undefined

/**
 * What comes next.
 *
 * - `respond`: pass the answer on
 * - `replay`: the same upstream on a fresh connection; neither attempt nor failure
 * - `retry`: choose again. `sent`: bytes of it may have been processed, so the retry is charged to the budget and
 *   backs off; `stale`: the topology may be to blame and is read again first
 * - `fail`: answer the client ourselves
 */
export type NextStep =
  | { readonly step: 'respond' }
  | { readonly step: 'replay' }
  | { readonly step: 'retry'; readonly reason: RetryReason; readonly sent: boolean; readonly stale: boolean }
  | { readonly step: 'fail'; readonly giveUp: GiveUpReason | undefined }

export interface Verdict {
  readonly health: HealthVerdict
  readonly next: NextStep
}

/**
 * | outcome | breaker | next |
 * | --- | --- | --- |
 * | answer | after the body | respond |
 * | answer, failure status | failure by status | respond; retry if listed and idempotent and replayable |
 * | 421 | nothing | retry, any method if replayable (RFC 9110 §15.5.20) |
 * | no connection | failure | retry, any method: nothing was sent |
 * | no free connection in time | failure, by timeout | likewise |
 * | stale keep-alive socket | nothing | replay if idempotent and replayable, else fail |
 * | broken, timed out | failure | retry if idempotent and replayable, else fail |
 * | no connection, timed out, as a retry near the deadline | nothing | as above |
 * | body stalled by the client, given up by us | nothing | fail |
 */
export function judge(outcome: HeadOutcome, facts: RequestFacts, rules: StatusRules): Verdict {
  switch (outcome.kind) {
    case 'responded':
      return judgeAnswer(outcome.response.status, facts, rules)
    case 'connectFailed':
      // Without a connection no byte of the body was taken, so it can be sent whatever its size.
      return {
        health: facts.hurried ? 'ignore' : 'connect',
        next: { step: 'retry', reason: 'connect', sent: false, stale: true },
      }
    case 'queuedTooLong':
      return {
        health: facts.hurried ? 'ignore' : 'timeout',
        next: { step: 'retry', reason: 'timeout', sent: false, stale: false },
      }
    case 'staleSocket':
      // On a connection of its own there is no idle socket to lose: the upstream broke it.
      return facts.isReplay
        ? { health: 'reset', next: again('reset', facts) }
        : { health: 'ignore', next: canRepeat(facts) ? { step: 'replay' } : again('reset', facts) }
    case 'broken':
      return { health: 'reset', next: again('reset', facts) }
    case 'timedOut':
      return { health: facts.hurried ? 'ignore' : 'timeout', next: again('timeout', facts) }
    case 'bodyStalled':
    case 'aborted':
      return { health: 'ignore', next: { step: 'fail', giveUp: undefined } }
    default:
      return outcome satisfies never
  }
}

function judgeAnswer(status: number, facts: RequestFacts, rules: StatusRules): Verdict {
  if (status === 421) {
    const next: NextStep = facts.replayable
      ? { step: 'retry', reason: 'misdirected', sent: false, stale: true }
      : { step: 'fail', giveUp: 'body-consumed' }
    return { health: 'ignore', next }
  }
  const health = rules.failureStatuses.has(status) ? 'status' : undefined
  if (!rules.retryStatuses.has(status) || !canRepeat(facts)) return { health, next: { step: 'respond' } }
  return { health, next: { step: 'retry', reason: 'status', sent: true, stale: false } }
}

function canRepeat(facts: RequestFacts): boolean {
  return facts.idempotent && facts.replayable
}

function again(reason: RetryReason, facts: RequestFacts): NextStep {
  if (canRepeat(facts)) return { step: 'retry', reason, sent: true, stale: false }
  return { step: 'fail', giveUp: facts.idempotent ? 'body-consumed' : 'not-idempotent' }
}

/** RFC 9110 §9.2.2. */
const idempotentMethods: ReadonlySet<string> = new Set(['GET', 'HEAD', 'PUT', 'DELETE', 'OPTIONS', 'TRACE'])

export function isIdempotent(method: string, idempotencyKey: unknown): boolean {
  return idempotentMethods.has(method) || idempotencyKey !== undefined
}
