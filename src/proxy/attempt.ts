import type { Lease } from '../balancer/lease.ts'
import type { Attempt, AttemptOutcome } from '../transport/transport.ts'
import { passOn } from './answer.ts'
import type { Ending } from './client.ts'
import type { Gateway } from './gateway.ts'
import type { PreparedRequest } from './prepare.ts'
import { failureOf, planRetry, type RetryPlan } from './retry-plan.ts'
import { Sending } from './sending.ts'
import { judge, type Verdict } from './verdict.ts'

/**
 * Sends the request to the upstream of one lease, and passes its answer on or plans a retry. Releases the lease on
 * every path, at the end of the answer's body.
 */
export async function attemptOnce(
  gateway: Gateway,
  prepared: PreparedRequest,
  lease: Lease,
  attempt: number,
): Promise<Ending | RetryPlan> {
  const { config, events, statusRules } = gateway
  const { client, body, idempotent, position, longLived } = prepared
  try {
    for (let isReplay = false; ; isReplay = true) {
      // One that stays open for long would keep a connection of the pool from all others.
      const sending = new Sending(gateway, prepared, lease, attempt, isReplay || longLived)
      const { sent } = sending
      client.whenGone(() => sent.abort())
      const outcome = await sent.outcome
      if (outcome.kind === 'aborted') {
        if (sending.waitedMs >= config.circuitBreaker.abandonedAfterMs) lease.failed('timeout', position)
        return client.left(lease.spec.id)
      }
      const hurried = sending.cutShort && attempt > 1
      const facts = { idempotent, replayable: body?.replayable ?? true, isReplay, hurried }
      const verdict = judge(outcome, facts, statusRules)
      if (verdict.next.step !== 'replay')
        return await act(gateway, prepared, lease, attempt, { sent, outcome, verdict })
      events.emit('retry', { upstream: lease.spec.id, attempt, reason: 'stale-socket' })
    }
  } finally {
    lease.release()
  }
}

/** Does what the verdict says. */
function act(
  gateway: Gateway,
  prepared: PreparedRequest,
  lease: Lease,
  attempt: number,
  judged: { sent: Attempt; outcome: AttemptOutcome; verdict: Verdict },
): Ending | RetryPlan | Promise<Ending> {
  const { sent, outcome, verdict } = judged
  const { health, next } = verdict
  const upstream = lease.spec.id
  if (health !== undefined && health !== 'ignore') lease.failed(health, prepared.position)
  let giveUp = next.step === 'fail' ? next.giveUp : undefined
  if (next.step === 'retry') {
    const plan = planRetry(gateway, next, { lease, attempt, deadline: prepared.deadline, outcome })
    if (typeof plan === 'object') {
      sent.abort()
      return plan
    }
    giveUp = plan
  }
  if (giveUp) gateway.events.emit('giveUp', { upstream, attempt, reason: giveUp })
  if (outcome.kind === 'responded' && outcome.response.status !== 421) {
    try {
      return passOn(gateway, prepared, lease, attempt, { sent, response: outcome.response })
    } catch (error) {
      sent.abort() // the operator's `onResponse` threw: nobody reads this answer
      throw error
    }
  }
  sent.abort()
  return prepared.client.fail(failureOf(outcome), upstream)
}
