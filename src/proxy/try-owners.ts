import type { Choice } from '../balancer/balancer.ts'
import { Lease } from '../balancer/lease.ts'
import type { Upstream } from '../topology/topology.ts'
import type { Client, Ending } from './client.ts'
import type { Gateway } from './gateway.ts'
import { unavailable } from './no-upstream.ts'
import type { RetryPlan } from './retry-plan.ts'

/**
 * Tries one owner after another until an attempt ends the request. Each choice is made on the placement of its moment,
 * so a topology that arrives between two attempts is followed.
 */
export async function tryOwners(
  gateway: Gateway,
  client: Client,
  key: Pick<Choice, 'position' | 'longLived'>,
  attemptOnce: (lease: Lease, attempt: number) => Promise<Ending | RetryPlan>,
): Promise<Ending> {
  const { config, admission, balancer, budget, refresher, events } = gateway
  if (key.longLived) admission.exempt(client)
  budget.recordRequest()
  const tried: Upstream[] = []
  const choice: Choice = { position: key.position, longLived: key.longLived, tried }
  let last: RetryPlan | undefined
  let chosen = balancer.choose(choice)
  for (let attempt = 1; ; attempt += 1) {
    if (!(chosen instanceof Lease)) {
      if (last)
        events.emit('giveUp', { upstream: last.upstream, attempt: attempt - 1, reason: 'no-upstream' })
      return client.fail(last?.failure ?? unavailable(chosen), last?.upstream)
    }
    if (last) events.emit('retry', { upstream: last.upstream, attempt: attempt - 1, reason: last.reason })
    const lease: Lease = chosen
    const result = await attemptOnce(lease, attempt)
    if ('outcome' in result) return result
    last = result
    tried.push(lease.spec)
    if (result.sign) await refresher.followUp(lease, result.sign, result.revision)
    if (result.delayMs > 0) await pause(gateway, client, result.delayMs)
    if (client.gone) return client.left(lease.spec.id)
    const bound = config.retry.hostPolicy === 'same' && balancer.placement === lease.placement
    chosen = bound ? balancer.chooseAgain(lease, choice) : balancer.choose(choice)
  }
}

/** Waits, but not for a client that has left. */
function pause({ config }: Gateway, client: Client, milliseconds: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = config.clock.setTimeout(resolve, milliseconds)
    client.whenGone(() => {
      timer.cancel()
      resolve()
    })
  })
}
