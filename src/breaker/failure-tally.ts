import type { EjectionCause, FailureKind } from './failure-kind.ts'
import { RecentKeys } from './recent-keys.ts'
import { RollingWindow } from './rolling-window.ts'

/** When a run of failures is enough. Meanings, units and defaults: `CircuitBreakerOptions`. */
export interface TripRule {
  readonly consecutiveFailures: number
  readonly failureRatePercent: number
  readonly minimumRequests: number
  readonly windowMs: number
}

/**
 * Counts results, both as the streak of failures since the last success and as those in the sliding window,
 * and says whether either of them meets the rule. The failures that meet it must also come from
 * `distinctKeys` different keys.
 */
export class FailureTally {
  readonly #rule: TripRule
  #streak = 0
  #streakAnswers = 0
  readonly #streakKeys: RecentKeys
  readonly #successes: RollingWindow
  readonly #failures: RollingWindow
  /** Failures other than `connect`. */
  readonly #answers: RollingWindow
  readonly #keys: RecentKeys

  /** `successes`: the successes in the window, which whoever counts them may share between tallies. */
  constructor(rule: TripRule, distinctKeys: number, successes: RollingWindow) {
    this.#rule = rule
    this.#streakKeys = new RecentKeys(distinctKeys)
    this.#successes = successes
    this.#failures = new RollingWindow(rule.windowMs)
    this.#answers = new RollingWindow(rule.windowMs)
    this.#keys = new RecentKeys(distinctKeys)
  }

  /** A success ends the streak. It is counted in `successes` by its owner. */
  endStreak(): void {
    if (this.#streak === 0) return
    this.#streak = 0
    this.#streakAnswers = 0
    this.#streakKeys.clear()
  }

  /** Counts a failure and returns the cause of the ejection that it leads to, if it does. */
  failure(kind: FailureKind, key: bigint, now: number): EjectionCause | undefined {
    this.#streak += 1
    this.#streakKeys.add(key, now)
    this.#failures.add(now)
    this.#keys.add(key, now)
    if (kind !== 'connect') {
      this.#streakAnswers += 1
      this.#answers.add(now)
    }
    if (this.#streakIsEnough()) return this.#streakAnswers === 0 ? 'connect' : 'answers'
    if (this.#rateIsEnough(now)) return this.#answers.total(now) === 0 ? 'connect' : 'answers'
    return undefined
  }

  #streakIsEnough(): boolean {
    return (
      this.#streak >= this.#rule.consecutiveFailures && this.#streakKeys.enoughSince(Number.NEGATIVE_INFINITY)
    )
  }

  #rateIsEnough(now: number): boolean {
    const failures = this.#failures.total(now)
    const requests = failures + this.#successes.total(now)
    return (
      requests >= this.#rule.minimumRequests &&
      failures * 100 >= requests * this.#rule.failureRatePercent &&
      this.#keys.enoughSince(now - this.#rule.windowMs)
    )
  }
}
