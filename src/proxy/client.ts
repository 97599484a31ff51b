import type { ServerResponse } from 'node:http'
import type { KeyRequest } from '../key/key-source.ts'
import type { RequestOutcome } from '../observe/events.ts'
import type { Placed } from '../unordered-list.ts'
import type { Failure } from './failure.ts'
import { answerFailure, breakOff } from './respond.ts'

/** How a request ended, for metrics. */
export interface Ending {
  readonly status: number
  readonly outcome: RequestOutcome
  /** Id of the upstream of the last attempt. */
  readonly upstream: string | undefined
}

/** The client's end of one request or upgrade. */
export abstract class Client implements Placed {
  readonly request: KeyRequest
  place = -1
  /** Held against a limit of its own (see `Admission`). */
  isLongLived = false
  #gone = false
  #onGone: (() => void) | undefined
  #isClosed = false
  #onClosed: (() => void) | undefined

  constructor(request: KeyRequest) {
    this.request = request
  }

  /** Whether it left before it had its answer. */
  get gone(): boolean {
    return this.#gone
  }

  /** Calls `abort` when the client leaves, in place of what was to be called before. */
  whenGone(abort: () => void): void {
    this.#onGone = abort
    if (this.#gone) abort()
  }

  /** Calls `then`, one in all, when the answer has been sent to the end, or the client has left. */
  whenClosed(then: () => void): void {
    this.#onClosed = then
    if (this.#isClosed) then()
  }

  /** Answers the client ourselves. */
  fail(failure: Failure, upstream?: string): Ending {
    if (this.#gone) return this.left(upstream)
    this.answer(failure)
    return { status: failure.status, outcome: 'failed', upstream }
  }

  /** The ending of a request whose client has left: 499 is what nginx and Caddy log for it. */
  left(upstream?: string): Ending {
    return { status: 499, outcome: 'client-gone', upstream }
  }

  /** Its answer begins, an upstream's or one of ours. */
  abstract answering(): void

  /** Ends the connection without an answer: the proxy closes and cannot wait any longer. */
  abstract breakOff(): void

  protected abstract answer(failure: Failure): void

  protected leave(): void {
    this.#gone = true
    this.#onGone?.()
  }

  protected close(): void {
    this.#isClosed = true
    this.#onClosed?.()
  }
}

/** A client that waits for an HTTP answer. */
export class HttpClient extends Client {
  readonly response: ServerResponse
  #answering = false

  constructor(request: KeyRequest, response: ServerResponse) {
    super(request)
    this.response = response
    if (response.destroyed) this.close()
    else response.on('close', () => this.close())
  }

  protected override close(): void {
    // An answer that is none of ours is the application's: it waits for an upstream's no longer.
    if (!this.response.writableFinished || !this.#answering) this.leave()
    super.close()
  }

  override breakOff(): void {
    breakOff(this.response)
  }

  override answering(): void {
    this.#answering = true
  }

  protected override answer(failure: Failure): void {
    this.answering()
    answerFailure(this.request, this.response, failure)
  }
}
