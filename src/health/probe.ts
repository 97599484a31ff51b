import * as http from 'node:http'
import * as https from 'node:https'
import type { Clock } from '../clock.ts'

export interface ProbeOptions {
  /** Time for the whole answer, in milliseconds. Default 2,000. */
  readonly timeoutMs: number
  /** Statuses that pass. Default: all from 200 to 399 (redirects are not followed). */
  readonly expectedStatuses?: readonly number[] | undefined
  /** For `https` upstreams, which are verified unless it says otherwise. */
  readonly tls?:
    | Pick<https.RequestOptions, 'ca' | 'cert' | 'key' | 'servername' | 'rejectUnauthorized'>
    | undefined
}

/**
 * Asks `target` once, over a connection of its own, and resolves to whether it answered as expected, in whole
 * and in time. Nothing that the network does rejects it; an abort resolves it to false.
 */
export function probe(
  target: URL,
  options: ProbeOptions,
  clock: Clock,
  signal: AbortSignal,
): Promise<boolean> {
  return new Promise((resolve) => {
    let passed = false
    const { request } = target.protocol === 'https:' ? https : http
    const attempt = request(target, { ...options.tls, agent: false, signal })
    const timer = clock.setTimeout(() => attempt.destroy(), options.timeoutMs)
    attempt.on('response', (response) => {
      response.on('end', () => {
        passed = isExpected(response.statusCode ?? 0, options.expectedStatuses)
      })
      response.resume()
    })
    // Every error is followed by `close`, and none of them tells more than that there was no answer.
    attempt.on('error', () => {})
    attempt.on('close', () => {
      timer.cancel()
      resolve(passed)
    })
    attempt.end()
  })
}

function isExpected(status: number, expected: readonly number[] | undefined): boolean {
  return expected === undefined ? status >= 200 && status <= 399 : expected.includes(status)
}
