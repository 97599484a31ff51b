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

/** Takes what came of the requests that were let through in a generation. */
export interface Settler<Generation> {
  settle(issuedIn: Generation, result: Result): void
}

/** Passes on the first result and none after it. */
export class SingleUsePermit<Generation extends { readonly state: string }> implements Permit {
  readonly #generation: Generation
  #settler: Settler<Generation> | undefined

  constructor(settler: Settler<Generation>, generation: Generation) {
    this.#settler = settler
    this.#generation = generation
  }

  responding(): void {
    if (this.#generation.state === 'half-open') this.success()
  }

  success(): void {
    this.#settle('success')
  }

  failure(kind: FailureKind, key: bigint): void {
    if (this.#settler) this.#settle({ kind, key })
  }

  ignore(): void {
    this.#settle('ignored')
  }

  #settle(result: Result): void {
    const settler = this.#settler
    this.#settler = undefined
    settler?.settle(this.#generation, result)
  }
}
