import type { IncomingMessage } from 'node:http'

/** The request as Express and Connect leave it; a bare `node:http` request has none of the optional fields. */
export interface KeyRequest extends IncomingMessage {
  originalUrl?: string
  params?: Record<string, string | string[]>
  body?: unknown
}

/** What the proxy knows of a request beside its head. */
export interface KeyFacts {
  /** The client's address under the proxy's trust setting, in canonical form. */
  clientAddress(): string
  /** The JSON body, parsed once, or undefined when there is none, it is too long, or it is not JSON. */
  jsonBody(): unknown
}

/**
 * One way to get the routing key out of a request. Built with `key.…` or parsed from its string form.
 * A source never throws for what a client sent: what it cannot read is a missing key. Only an exception of the
 * operator's own function (`key.from`) comes through; the caller counts it as a missing key and logs it.
 */
export interface KeySource {
  /** Its string form where it has one (`header:x-user-id`), for messages. */
  readonly description: string
  /** Bytes of body it needs to see; 0 when it looks at the head only. */
  readonly bodyLimit: number
  /** Whether it can work for an upgrade, which has neither route parameters nor a body. */
  readonly worksForUpgrade: boolean
  /** Lower-case names of the headers it reads: a client cannot strip them on their way to the upstream. */
  readonly headerNames: readonly string[]
  /** The key, or undefined when the request has none. Empty and blank count as none. */
  extract(request: KeyRequest, facts: KeyFacts): string | undefined
}
