import type { Lease } from '../balancer/lease.ts'
import { fromHeaderList } from '../http/header-list.ts'
import type { HeadOutcome, UpgradeAttempt, UpgradeRefusal } from '../transport/transport.ts'
import { answerHeaders } from './answer.ts'
import type { Ending } from './client.ts'
import type { Gateway } from './gateway.ts'
import { outgoingRequest } from './outgoing-head.ts'
import type { PreparedRequest } from './prepare.ts'
import { failureOf, planRetry, type RetryPlan } from './retry-plan.ts'
import type { UpgradeClient } from './upgrade-client.ts'
import { judge } from './verdict.ts'

/** An upgrade whose key and head are ready to be sent, as often as need be. */
export interface PreparedUpgrade extends Pick<PreparedRequest, 'head' | 'position' | 'deadline'> {
  readonly client: UpgradeClient
}

/** One handshake of it. */
interface Handshake extends PreparedUpgrade {
  readonly lease: Lease
  readonly attempt: number
  /** Clock time of its start. */
  readonly started: number
}

/** One handshake with the upstream of one lease. The lease is released when that upstream has no part in it any more. */
export async function attemptUpgrade(
  gateway: Gateway,
  prepared: PreparedUpgrade,
  lease: Lease,
  attempt: number,
): Promise<Ending | RetryPlan> {
  const { client, position } = prepared
  const { clock, circuitBreaker } = gateway.config
  const upstream = lease.spec.id
  const started = clock.now()
  const handshake = { ...prepared, lease, attempt, started }
  let sent: UpgradeAttempt | undefined
  try {
    sent = send(gateway, handshake)
    const outcome = await sent.outcome
    switch (outcome.kind) {
      case 'aborted':
        if (clock.now() - started >= circuitBreaker.abandonedAfterMs) lease.failed('timeout', position)
        return client.left(upstream)
      case 'upgraded': {
        const answer = { status: 101, statusText: '', rawHeaders: outcome.rawHeaders }
        const headers = answerHeaders(gateway, client.request, lease, attempt, answer)
        lease.succeeded()
        client.answering()
        await outcome.join({ ...fromHeaderList(headers), connection: 'Upgrade', upgrade: 'websocket' })
        return { status: 101, outcome: 'answered', upstream }
      }
      case 'refused': {
        const { response } = outcome
        const plan = planNext(gateway, handshake, { kind: 'responded', response })
        return plan ?? (await passRefusalOn(gateway, handshake, response))
      }
      default:
        return planNext(gateway, handshake, outcome) ?? client.fail(failureOf(outcome), upstream)
    }
  } finally {
    sent?.abort()
    lease.release()
  }
}

function send({ config, transport }: Gateway, handshake: Handshake): UpgradeAttempt {
  const { client, head, position, deadline, lease, attempt, started } = handshake
  const { headers, ...outgoing } = outgoingRequest(head, lease, attempt, position, config)
  const { connectMs, webSocketHandshakeMs } = config.timeouts
  const leftMs = Math.max(1, deadline - started)
  const sent = transport.upgrade(
    { ...outgoing, headers: { ...headers, connection: 'Upgrade', upgrade: 'websocket' } },
    {
      socket: client.socket,
      timeouts: {
        connectMs: Math.min(connectMs, leftMs),
        handshakeMs: Math.min(webSocketHandshakeMs, leftMs),
      },
    },
  )
  client.whenGone(() => sent.abort())
  return sent
}

/** Tells the breaker what the handshake's end means, and plans a retry where there shall be one. */
function planNext(
  gateway: Gateway,
  { lease, attempt, position, deadline, started }: Handshake,
  outcome: HeadOutcome,
): RetryPlan | undefined {
  const { config, events, statusRules } = gateway
  const upstream = lease.spec.id
  const { connectMs, webSocketHandshakeMs } = config.timeouts
  const hurried = attempt > 1 && deadline - started < Math.max(connectMs, webSocketHandshakeMs)
  // A handshake is a GET without a body: nothing is lost by asking twice.
  const facts = { idempotent: true, replayable: true, isReplay: false, hurried }
  const { health, next } = judge(outcome, facts, statusRules)
  if (health !== undefined && health !== 'ignore') lease.failed(health, position)
  if (next.step !== 'retry') return undefined
  const plan = planRetry(gateway, next, { lease, attempt, deadline, outcome })
  if (typeof plan === 'object') return plan
  events.emit('giveUp', { upstream, attempt, reason: plan })
  return undefined
}

/** An answer other than 101 is the client's; but 421 only says that it was asked of the wrong one. */
async function passRefusalOn(
  gateway: Gateway,
  handshake: Handshake,
  response: UpgradeRefusal,
): Promise<Ending> {
  const { client, lease, attempt, position } = handshake
  const { status } = response
  const upstream = lease.spec.id
  if (status === 421) return client.fail(failureOf({ kind: 'responded', response }), upstream)
  const headers = answerHeaders(gateway, client.request, lease, attempt, response)
  const outcome = await client.relay(response, headers, gateway.config.timeouts.idleMs)
  switch (outcome) {
    case 'complete':
      lease.succeeded()
      return { status, outcome: 'answered', upstream }
    case 'client-gone':
      return client.left(upstream)
    default:
      lease.failed(outcome === 'idle' ? 'timeout' : 'reset', position)
      return { status, outcome: 'broken', upstream }
  }
}
