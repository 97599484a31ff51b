import type { FailureKind, Permit } from '../breaker/circuit-breaker.ts'
import type { Upstream } from '../topology/topology.ts'
import type { Placement } from './placement.ts'
import type { RegisteredUpstream } from './registered-upstream.ts'

/** Counts what upstreams have in flight. */
export interface LoadAccount {
  /** A request has left `upstream`. */
  free(upstream: RegisteredUpstream): void
}

/**
 * The right to send one attempt to one upstream: a slot of its capacity and its breaker's permit. Whoever gets one
 * must release it, once, on every path; a second release does nothing.
 */
export class Lease {
  readonly upstream: RegisteredUpstream
  /** The upstream as the placement described it when it was chosen. */
  readonly spec: Upstream
  /** The placement that the choice was made on. */
  readonly placement: Placement
  /** The key's first owner, whoever was chosen. */
  readonly owner: RegisteredUpstream
  readonly #permit: Permit | undefined
  #account: LoadAccount | undefined

  constructor(
    upstream: RegisteredUpstream,
    { placement, owner }: Pick<Lease, 'placement' | 'owner'>,
    permit: Permit | undefined,
    account: LoadAccount,
  ) {
    this.upstream = upstream
    this.spec = upstream.spec
    this.placement = placement
    this.owner = owner
    this.#permit = permit
    this.#account = account
  }

  /** The head of a good answer is here. */
  responding(): void {
    this.#permit?.responding()
  }

  succeeded(): void {
    this.#permit?.success()
  }

  failed(kind: FailureKind, key: bigint): void {
    this.#permit?.failure(kind, key)
  }

  /** Gives the slot back. An attempt that was neither success nor failure says nothing to the breaker. */
  release(): void {
    const account = this.#account
    this.#account = undefined
    if (!account) return
    this.#permit?.ignore()
    account.free(this.upstream)
  }
}
