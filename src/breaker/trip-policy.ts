import type { EjectionCause, FailureKind } from './failure-kind.ts'
import { FailureTally, type TripRule } from './failure-tally.ts'
import { RollingWindow } from './rolling-window.ts'

/**
 * Decides when a closed breaker trips; knows nothing of what being open means.
 *
 * The rule is applied twice: to the hard failures as if no bad status had ever come, and to all failures,
 * which then must come from `distinctKeys` different keys. So one poisonous key that is answered 503
 * everywhere does not fell owner after owner, nor does it hide that the other keys fail.
 */
export class TripPolicy {
  readonly #hard: FailureTally
  readonly #all: FailureTally
  readonly #successes: RollingWindow

  constructor(rule: TripRule & { readonly distinctKeys: number }) {
    this.#successes = new RollingWindow(rule.windowMs)
    this.#hard = new FailureTally(rule, 1, this.#successes)
    this.#all = new FailureTally(rule, rule.distinctKeys, this.#successes)
  }

  success(now: number): void {
    this.#successes.add(now)
    this.#hard.endStreak()
    this.#all.endStreak()
  }

  /** Counts a failure and returns the cause of the ejection that it leads to, if it does. Only a failure trips. */
  failure(kind: FailureKind, key: bigint, now: number): EjectionCause | undefined {
    const byAll = this.#all.failure(kind, key, now)
    return kind === 'status' ? byAll : (this.#hard.failure(kind, key, now) ?? byAll)
  }
}
