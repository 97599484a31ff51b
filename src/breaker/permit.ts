import type { FailureKind } from './failure-kind.ts'

/**
 * Leave to send one request, and a promise to say what came of it. Exactly one of `success`, `failure` and
 * `ignore` counts: the first. Whatever comes after the breaker has changed its state counts nothing.
 */
export interface Permit {
  /**
   * The head of a good answer has come. For a probe that is success already, so that a long stream does not
   * hold the breaker half-open; otherwise nothing is known before the end.
   */
  responding(): void
  success(): void
  /** `key` is the hash of the request's routing key. */
  failure(kind: FailureKind, key: bigint): void
  /** Neither success nor failure: the client went away, 421, a stale keep-alive socket. Gives a probe back. */
  ignore(): void
}

/** What came of a request. */
export type Result = 'success' | 'ignored' | { readonly kind: FailureKind; readonly key: bigint }

/** Passes on the first result and none after it. */
export class SingleUsePermit implements Permit {
  readonly #isProbe: boolean
  #settle: ((result: Result) => void) | undefined

  constructor(isProbe: boolean, settle: (result: Result) => void) {
    this.#isProbe = isProbe
    this.#settle = settle
  }

  responding(): void {
    if (this.#isProbe) this.success()
  }

  success(): void {
    this.#settleOnce('success')
  }

  failure(kind: FailureKind, key: bigint): void {
    this.#settleOnce({ kind, key })
  }

  ignore(): void {
    this.#settleOnce('ignored')
  }

  #settleOnce(result: Result): void {
    const settle = this.#settle
    this.#settle = undefined
    settle?.(result)
  }
}
