import type { ServerResponse } from 'node:http'
import { checkFraming } from '../http/framing.ts'
import type { KeyRequest } from '../key/key-source.ts'
import { attemptOnce } from './attempt.ts'
import { type Client, type Ending, HttpClient } from './client.ts'
import { type Failure, failures } from './failure.ts'
import type { Gateway } from './gateway.ts'
import { type PreparedRequest, prepare } from './prepare.ts'
import { tryOwners } from './try-owners.ts'

/** Serves one request from its key to the end of its answer. Never rejects. */
export function serve(gateway: Gateway, request: KeyRequest, response: ServerResponse): Promise<void> {
  return account(gateway, new HttpClient(request, response), serveHttp)
}

function serveHttp(gateway: Gateway, client: HttpClient): Ending | Promise<Ending> {
  const prepared = prepare(gateway, client)
  return prepared instanceof Promise
    ? prepared.then((late) => serveOwned(gateway, client, late))
    : serveOwned(gateway, client, prepared)
}

function serveOwned(
  gateway: Gateway,
  client: HttpClient,
  prepared: PreparedRequest | Failure,
): Ending | Promise<Ending> {
  if ('code' in prepared) return client.fail(prepared)
  return tryOwners(gateway, client, prepared, (lease, attempt) =>
    attemptOnce(gateway, prepared, lease, attempt),
  )
}

/** Lets a request in or refuses it, counts it while it is served, and reports how it ended. Never rejects. */
export async function account<SomeClient extends Client>(
  gateway: Gateway,
  client: SomeClient,
  serveIt: (gateway: Gateway, client: SomeClient, started: number) => Ending | Promise<Ending>,
): Promise<void> {
  const { config, admission, balancer, readiness, events } = gateway
  const started = config.clock.now()
  const refusal = admission.refusal ?? headRefusal(client.request, config.limits)
  admission.enter(client)
  let ending: Ending
  try {
    if (!refusal && !balancer.placement) await readiness.wait(config.timeouts.connectMs)
    ending = refusal ? client.fail(refusal) : await serveIt(gateway, client, started)
  } catch (error) {
    // A hook of the operator's, or a mistake of ours: this request fails, the others and the process do not.
    config.logger.error({ err: error }, 'serving a request failed')
    ending = client.fail(failures.internal)
  } finally {
    // An answer that a slow client is still taking is not over: `close` waits for it.
    client.whenClosed(() => admission.leave(client))
  }
  const { status, outcome, upstream } = ending
  events.emit('request', { status, outcome, upstream, milliseconds: config.clock.now() - started })
}

function headRefusal(request: KeyRequest, limits: { requestHeaderBytes: number }): Failure | undefined {
  const fault = checkFraming(request, limits)
  return fault && { ...fault, code: 'BAD_REQUEST' }
}
