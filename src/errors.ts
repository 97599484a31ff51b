/** Base of every error that the library throws or answers with; `code` is stable and may be tested for. */
export class ConsistentHashProxyError extends Error {
  readonly code: string
  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = new.target.name
    this.code = code
  }
}

/** A mistake in the options: thrown at construction, names the option, what was expected and what was given. */
export class OptionsError extends ConsistentHashProxyError {
  constructor(message: string) {
    super('INVALID_OPTIONS', message)
  }
}

/** One entry of a topology that cannot be used; the others go on. */
export class RefusedEntryError extends ConsistentHashProxyError {
  /** A member of a small fixed set, safe as a metric label. */
  readonly reason: RefusalReason
  constructor(reason: RefusalReason, message: string) {
    super('REFUSED_ENTRY', message)
    this.reason = reason
  }
}

/** Why an entry of a topology was refused (a metric label, so a small fixed set). */
export type RefusalReason = 'json' | 'field' | 'url' | 'host' | 'weight' | 'duplicate' | 'limit'

/** The topology source cannot be reached or refuses us; says which, and what to look at. */
export class TopologySourceError extends ConsistentHashProxyError {
  constructor(message: string, options?: ErrorOptions) {
    super('TOPOLOGY_SOURCE', message, options)
  }
}

/** The proxy or registration was closed while something still waited for it. */
export class ClosedError extends ConsistentHashProxyError {
  constructor(what: string) {
    super('CLOSED', `${what} is closed`)
  }
}
