import type { ServerResponse } from 'node:http'
import type { KeyRequest } from '../key/key-source.ts'
import type { RequestOutcome } from '../observe/events.ts'
import type { Failure } from './failure.ts'
import { answerFailure } from './respond.ts'

/** How a request ended, for metrics. */
export interface Ending {
  readonly status: number
  readonly outcome: RequestOutcome
  /** Id of the upstream of the last attempt. */
  readonly upstream: string | undefined
}

/** The client's end of one request. */
export class Client {
  readonly request: KeyRequest
  readonly response: ServerResponse
  #gone = false
  #onGone: (() => void) | undefined

  constructor(request: KeyRequest, response: ServerResponse) {
    this.request = request
    this.response = response
    const close = () => {
      if (response.writableFinished) return
      this.#gone = true
      this.#onGone?.()
    }
    if (response.destroyed) close()
    else response.once('close', close)
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

  fail(failure: Failure, upstream?: string): Ending {
    if (this.#gone) return this.left(upstream)
    answerFailure(this.request, this.response, failure)
    return { status: failure.status, outcome: 'failed', upstream }
  }

  /** The ending of a request whose client has left: 499 is what nginx and Caddy log for it. */
  left(upstream?: string): Ending {
    return { status: 499, outcome: 'client-gone', upstream }
  }
}
