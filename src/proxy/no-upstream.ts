import type { NoUpstream } from '../balancer/balancer.ts'
import type { Failure } from './failure.ts'

/** The answer when no upstream can be chosen. */
export function unavailable({ reason, retryAfterMs }: NoUpstream): Failure {
  if (reason === 'full') {
    return {
      status: 503,
      code: 'OVERLOADED',
      message: 'The upstream has as much to do as it may',
      retryAfterMs,
    }
  }
  const message = reason === 'no-topology' ? 'The gateway knows no upstream yet' : 'No upstream is available'
  return { status: 503, code: 'NO_UPSTREAM', message, retryAfterMs }
}
