import type { ServerResponse } from 'node:http'
import { forwardableTrailers } from '../http/header-fields.ts'
import { topologyHeaderNames } from '../topology-headers.ts'
import { type Deadlines, PhaseTimer } from '../transport/phase-timer.ts'
import type { BodySink, UpstreamResponse } from '../transport/transport.ts'
import { breakOff } from './respond.ts'

/** How passing an answer on ended. */
export type RelayOutcome = 'complete' | 'upstream-broke' | 'idle' | 'client-gone'

/** When passing an answer on takes too long. */
export interface IdleLimit {
  readonly deadlines: Deadlines
  /** Milliseconds without a byte in either direction. */
  readonly idleMs: number
  /** Bytes of the request's body that the client has sent so far: an upload may go on behind the answer's head. */
  readonly uploaded: () => number
}

/**
 * Streams an answer's body to the client with back-pressure. Tells once how that ended, when the upstream has no part in
 * it any more.
 */
export class Relay implements BodySink {
  readonly #upstream: UpstreamResponse
  readonly #response: ServerResponse
  readonly #limit: IdleLimit
  readonly #onEnd: (outcome: RelayOutcome) => void
  readonly #idle: PhaseTimer
  /** Bytes uploaded when the idle time began. */
  #seen = 0
  #isOver = false
  #isHeld = false

  constructor(
    upstream: UpstreamResponse,
    response: ServerResponse,
    limit: IdleLimit,
    onEnd: (outcome: RelayOutcome) => void,
  ) {
    this.#upstream = upstream
    this.#response = response
    this.#limit = limit
    this.#onEnd = onEnd
    this.#idle = new PhaseTimer(limit.deadlines, () => this.#late())
  }

  start(): void {
    this.#wait()
    // The head of an answer whose body is slow to start must not wait for it (server-sent events).
    flushSoon(this.#response)
    this.#upstream.start(this)
  }

  write(chunk: Buffer): boolean {
    if (this.#isOver) return true
    this.#idle.touch()
    if (this.#response.write(chunk)) return true
    if (!this.#isHeld) {
      this.#isHeld = true
      this.#response.once('drain', () => {
        this.#isHeld = false
        this.#upstream.resume()
      })
    }
    return false
  }

  end(rawTrailers: readonly string[]): void {
    if (this.#isOver) return
    if (rawTrailers.length > 0)
      this.#response.addTrailers(forwardableTrailers(rawTrailers, topologyHeaderNames))
    this.#response.end()
    this.#end('complete')
  }

  break(): void {
    this.#end('upstream-broke')
  }

  /** The client has left. */
  left(): void {
    this.#end('client-gone')
  }

  #end(outcome: RelayOutcome): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#idle.stop()
    // A client that gets less than the whole must see it: only a broken connection says so.
    if (outcome !== 'complete') breakOff(this.#response)
    this.#onEnd(outcome)
  }

  #wait(): void {
    this.#seen = this.#limit.uploaded()
    this.#idle.start(this.#limit.idleMs)
  }

  #late(): void {
    if (this.#limit.uploaded() > this.#seen) this.#wait()
    // A client that takes nothing keeps the upstream from sending: its own idleness, not the upstream's.
    else this.#end(this.#response.writableNeedDrain ? 'client-gone' : 'idle')
  }
}

/** Responses whose heads are to be sent at the end of this turn of the event loop, if their bodies have not begun. */
const unsent: ServerResponse[] = []

function flushSoon(response: ServerResponse): void {
  if (unsent.push(response) === 1) setImmediate(flushAll)
}

function flushAll(): void {
  for (const response of unsent.splice(0))
    if (!response.writableEnded && !response.destroyed) response.flushHeaders()
}
