import type { Readable } from 'node:stream'
import type { Lease } from '../balancer/lease.ts'
import type { Clock } from '../clock.ts'
import { forwardableTrailers } from '../http/header-fields.ts'
import type { RequestBody } from '../http/request-body.ts'
import { topologyHeaderNames } from '../topology-headers.ts'
import type { Attempt, AttemptOptions, OutgoingBody } from '../transport/transport.ts'
import type { HttpClient } from './client.ts'
import type { Gateway } from './gateway.ts'
import { outgoingRequest } from './outgoing-head.ts'
import type { PreparedRequest } from './prepare.ts'
import { writeEarlyHints } from './respond.ts'

/** A request on its way to one upstream, with what has to be known to judge how it ends. */
export class Sending implements OutgoingBody, Pick<AttemptOptions, 'onInformation'> {
  readonly sent: Attempt
  /** The deadline leaves it less time than an attempt may have otherwise. */
  readonly cutShort: boolean
  readonly #clock: Clock
  readonly #client: HttpClient
  readonly #body: RequestBody | undefined
  #waitingSince: number | undefined

  /**
   * Sends a request to the upstream of `lease`, on a connection of the pool or a fresh one. Throws what the operator's
   * `onRequest` throws.
   */
  constructor(
    { config, transport, attemptTimeouts }: Gateway,
    { client, head, body, position, deadline }: PreparedRequest,
    lease: Lease,
    attempt: number,
    freshConnection: boolean,
  ) {
    const { clock } = config
    const now = clock.now()
    const totalMs = Math.max(1, deadline - now)
    this.#clock = clock
    this.#client = client
    this.#body = body
    this.#waitingSince = body ? undefined : now
    this.cutShort = totalMs < Math.max(attemptTimeouts.connectMs, attemptTimeouts.firstByteMs)
    this.sent = transport.send(outgoingRequest(head, lease, attempt, position, config), {
      body: body && this,
      timeouts: attemptTimeouts,
      totalMs,
      freshConnection,
      onInformation: (status, rawHeaders) => this.onInformation(status, rawHeaders),
    })
  }

  /** Milliseconds since the upstream has had the whole request; 0 until then. */
  get waitedMs(): number {
    return this.#waitingSince === undefined ? 0 : this.#clock.now() - this.#waitingSince
  }

  open(): Readable {
    if (!this.#body) throw new Error('expected a request with a body')
    return this.#body.open().once('end', () => {
      this.#waitingSince = this.#clock.now()
    })
  }

  trailers(): [name: string, value: string][] {
    return forwardableTrailers(this.#client.request.rawTrailers, topologyHeaderNames)
  }

  onInformation(status: number, rawHeaders: readonly string[]): void {
    // Only 103 is for the client; 100 has been answered, and 102 keeps nobody's connection alive here.
    if (status === 103) writeEarlyHints(this.#client.request, this.#client.response, rawHeaders)
  }
}
