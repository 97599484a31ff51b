import type { Lease } from '../balancer/lease.ts'
import { valuesOf } from '../http/header-fields.ts'
import type { GiveUpReason, RetryReason, StaleSign } from '../observe/events.ts'
import { backoffDelay } from '../retry/backoff.ts'
import type { HeadOutcome } from '../transport/transport.ts'
import { type Failure, failures } from './failure.ts'
import type { Gateway } from './gateway.ts'
import { newerTopology } from './topology-stamp.ts'
import type { NextStep } from './verdict.ts'

/** The request goes on to another attempt. */
export interface RetryPlan {
  /** Id of the upstream that failed. */
  readonly upstream: string
  readonly reason: RetryReason
  readonly delayMs: number
  /** Why the topology may be stale; undefined when it is not to blame. */
  readonly sign: StaleSign | undefined
  /** The revision that the upstream knows, where it is newer than ours. */
  readonly revision: bigint | undefined
  /** What to answer when there is nowhere to go. */
  readonly failure: Failure
}

/**
 * Plans the retry that a verdict asks for, or says what forbids it. A retry behind sent bytes is charged to the budget
 * from here on, while it still waits: any number could be admitted otherwise before the first one shows.
 */
export function planRetry(
  { config, budget }: Gateway,
  next: NextStep & { step: 'retry' },
  request: { lease: Lease; attempt: number; deadline: number; outcome: HeadOutcome },
): RetryPlan | GiveUpReason {
  const { lease, attempt, deadline, outcome } = request
  if (attempt > config.retry.attempts) return 'attempts'
  // Only a newer topology could name another upstream: better the answer that is there than none behind a wait.
  const triedAll = config.retry.hostPolicy === 'next' && attempt >= lease.placement.members.length
  if (triedAll && !next.stale) return 'no-upstream'
  const delayMs = next.sent
    ? Math.max(backoffDelay(attempt, config.retry.backoff, config.clock.random), retryAfterMs(outcome))
    : 0
  if (config.clock.now() + delayMs >= deadline) return 'deadline'
  if (next.sent && !budget.tryAdmit()) return 'budget'
  const sign = !next.stale ? undefined : next.reason === 'misdirected' ? 'misdirected' : 'connect'
  const newer =
    outcome.kind === 'responded' ? newerTopology(outcome.response.rawHeaders, lease.placement) : undefined
  return {
    ...{ upstream: lease.spec.id, reason: next.reason, delayMs },
    ...{ sign, revision: newer?.revision, failure: failureOf(outcome) },
  }
}

/** What the client is told when an attempt was the last one. */
export function failureOf(outcome: HeadOutcome): Failure {
  switch (outcome.kind) {
    case 'connectFailed':
      return failures.unreachable
    case 'queuedTooLong':
    case 'timedOut':
      return failures.timeout
    case 'bodyStalled':
      return failures.bodyTooSlow
    case 'responded':
      return outcome.response.status === 421 ? failures.misdirected : failures.unreachable
    default:
      return failures.reset
  }
}

/** RFC 9110 §10.2.3, in seconds or as a date; 0 where an answer has none. */
function retryAfterMs(outcome: HeadOutcome): number {
  if (outcome.kind !== 'responded') return 0
  const value = valuesOf(outcome.response.rawHeaders, 'retry-after') ?? ''
  if (/^\d+$/.test(value)) return Number(value) * 1_000
  const date = Date.parse(value)
  return Number.isNaN(date) ? 0 : Math.max(0, date - Date.now())
}
