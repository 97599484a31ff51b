import type { IncomingHttpHeaders } from 'node:http'
import type { Lease } from '../balancer/lease.ts'
import type { Attempt, AttemptOutcome } from '../transport/transport.ts'
import { passOn } from './answer.ts'
import type { Ending, HttpClient } from './client.ts'
import type { Gateway } from './gateway.ts'
import { outgoingRequest } from './outgoing-head.ts'
import type { PreparedRequest } from './prepare.ts'
import { failureOf, planRetry, type RetryPlan } from './retry-plan.ts'
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
  const { client, body, idempotent, position } = prepared
  try {
    for (let isReplay = false; ; isReplay = true) {
      const started = config.clock.now()
      const sent = send(gateway, prepared, lease, attempt, isReplay)
      client.whenGone(() => sent.abort())
      const outcome = await sent.outcome
      if (outcome.kind === 'aborted') {
        const waited = config.clock.now() - started
        if (waited >= config.circuitBreaker.abandonedAfterMs) lease.failed('timeout', position)
        return client.left(lease.spec.id)
      }
      const facts = { idempotent, replayable: body?.replayable ?? true, isReplay }
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
async function act(
  gateway: Gateway,
  prepared: PreparedRequest,
  lease: Lease,
  attempt: number,
  judged: { sent: Attempt; outcome: AttemptOutcome; verdict: Verdict },
): Promise<Ending | RetryPlan> {
  const { sent, outcome, verdict } = judged
  const { health, next } = verdict
  const upstream = lease.spec.id
  if (health !== undefined && health !== 'ignore') lease.failed(health, prepared.position)
  let giveUp = next.step === 'fail' ? next.giveUp : undefined
  if (next.step === 'retry') {
    const plan = planRetry(gateway, next, { lease, attempt, deadline: prepared.deadline, outcome })
    if (typeof plan === 'object') {
      sent.abort()
      gateway.events.emit('retry', { upstream, attempt, reason: next.reason })
      return plan
    }
    giveUp = plan
  }
  if (giveUp) gateway.events.emit('giveUp', { upstream, attempt, reason: giveUp })
  if (outcome.kind === 'responded' && outcome.response.status !== 421) {
    return passOn(gateway, prepared, lease, attempt, { sent, response: outcome.response })
  }
  sent.abort()
  return prepared.client.fail(failureOf(outcome), upstream)
}

function send(
  { config, transport }: Gateway,
  { client, head, body, position, deadline }: PreparedRequest,
  lease: Lease,
  attempt: number,
  freshConnection: boolean,
): Attempt {
  const { timeouts, retry } = config
  const left = Math.max(1, deadline - config.clock.now())
  return transport.send(outgoingRequest(head, lease, attempt, position, config), {
    body: body && { open: () => body.open(), trailers: () => head.request.rawTrailers },
    timeouts: {
      connectMs: Math.min(timeouts.connectMs, left),
      firstByteMs: Math.min(timeouts.firstByteMs, retry.perTryTimeoutMs ?? timeouts.firstByteMs, left),
      idleMs: timeouts.idleMs,
    },
    freshConnection,
    onInformation: (status, headers) => passHintsOn(client, status, headers),
  })
}

/** Only 103 (RFC 8297) is for the client; 100 has been answered, and 102 keeps nobody's connection alive here. */
function passHintsOn({ response }: HttpClient, status: number, headers: IncomingHttpHeaders): void {
  if (status !== 103 || response.headersSent || response.destroyed || headers.link === undefined) return
  try {
    response.writeEarlyHints({ link: [headers.link].flat().join(', ') })
  } catch {
    // Node checks the form of a link; a hint that it does not like is no loss.
  }
}
