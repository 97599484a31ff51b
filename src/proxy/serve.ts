import type { ServerResponse } from 'node:http'
import { Lease } from '../balancer/lease.ts'
import { checkFraming } from '../http/framing.ts'
import type { KeyRequest } from '../key/key-source.ts'
import type { Upstream } from '../topology/topology.ts'
import { attemptOnce } from './attempt.ts'
import { Client, type Ending } from './client.ts'
import { type Failure, failures } from './failure.ts'
import type { Gateway } from './gateway.ts'
import { unavailable } from './no-upstream.ts'
import { prepare } from './prepare.ts'
import type { RetryPlan } from './retry-plan.ts'

/** Serves one request from its key to the end of its answer. Never rejects. */
export async function serve(gateway: Gateway, request: KeyRequest, response: ServerResponse): Promise<void> {
  const { config, admission, events } = gateway
  const started = config.clock.now()
  const client = new Client(request, response)
  const refusal = refuse(gateway, request)
  admission.enter()
  let ending: Ending
  try {
    ending = refusal ? client.fail(refusal) : await forward(gateway, client, started)
  } catch (error) {
    // A hook of the operator's, or a mistake of ours: this request fails, the others and the process do not.
    config.logger.error({ err: error }, 'serving a request failed')
    ending = client.fail(failures.internal)
  } finally {
    admission.leave()
  }
  events.emit('request', { ...ending, milliseconds: config.clock.now() - started })
}

function refuse({ admission, config }: Gateway, request: KeyRequest): Failure | undefined {
  if (admission.closing) return failures.closing
  if (admission.full) return failures.overloaded
  const fault = checkFraming(request, config.limits)
  return fault && { ...fault, code: 'BAD_REQUEST' }
}

async function forward(gateway: Gateway, client: Client, started: number): Promise<Ending> {
  const prepared = await prepare(gateway, client, started)
  if ('code' in prepared) return client.fail(prepared)
  const { config, balancer, budget, refresher, events } = gateway
  budget.recordRequest()
  const tried: Upstream[] = []
  const choice = { position: prepared.position, tried, longLived: prepared.longLived }
  let last: RetryPlan | undefined
  let chosen = balancer.choose(choice)
  for (let attempt = 1; ; attempt += 1) {
    if (!(chosen instanceof Lease)) {
      if (last)
        events.emit('giveUp', { upstream: last.upstream, attempt: attempt - 1, reason: 'no-upstream' })
      return client.fail(last?.failure ?? unavailable(chosen), last?.upstream)
    }
    const lease = chosen
    const result = await attemptOnce(gateway, prepared, lease, attempt)
    if ('outcome' in result) return result
    last = result
    tried.push(lease.spec)
    if (result.sign) await refresher.followUp(lease, result.sign)
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
