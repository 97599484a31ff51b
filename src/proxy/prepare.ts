import { type BodyPlan, describeBody } from '../http/consumed-body.ts'
import { RequestBody } from '../http/request-body.ts'
import type { KeyRequest } from '../key/key-source.ts'
import type { HttpClient } from './client.ts'
import { type Failure, failures } from './failure.ts'
import type { Gateway } from './gateway.ts'
import { unavailable } from './no-upstream.ts'
import { originForm, type RequestHead, requestHead } from './outgoing-head.ts'
import { isIdempotent } from './verdict.ts'

/** A request whose key, head and body are ready to be sent, as often as need be. */
export interface PreparedRequest {
  readonly client: HttpClient
  readonly head: RequestHead
  readonly body: RequestBody | undefined
  readonly position: bigint
  readonly idempotent: boolean
  readonly longLived: boolean
  /** Clock time by which the head of an answer has to be there; a slow client's body was read before. */
  readonly deadline: number
}

/** Reads the key, cleans the head and gets the body ready; or says why the request is refused. */
export function prepare(
  gateway: Gateway,
  client: HttpClient,
): PreparedRequest | Failure | Promise<PreparedRequest | Failure> {
  const { config, routingKey } = gateway
  const { request } = client
  const plan = describeBody(request)
  if (plan.kind === 'refused') return { status: 500, code: 'BODY_NOT_FORWARDABLE', message: plan.message }
  const body = bodyOf(plan, request, config.limits.replayBytes)
  if (!routingKey.needsBody(request))
    return prepared(gateway, client, plan, body, routingKey.of(request, plan, undefined))
  return readKey(gateway, request, plan, body).then((key) => prepared(gateway, client, plan, body, key))
}

function prepared(
  gateway: Gateway,
  client: HttpClient,
  plan: BodyPlan,
  body: RequestBody | undefined,
  key: string | undefined | Failure,
): PreparedRequest | Failure {
  const { config } = gateway
  const { request } = client
  const position = positionOf(gateway, key)
  if (typeof position === 'object') return position
  return {
    client,
    head: requestHead(gateway, request, originForm(request.url), plan),
    body,
    position,
    idempotent: isIdempotent(request.method ?? 'GET', request.headers['idempotency-key']),
    longLived: config.longLived?.(request) ?? false,
    deadline: config.clock.now() + config.timeouts.totalMs,
  }
}

/** Where a key lies on the ring; a request without one goes to any point of it with the same chance. */
export function positionOf(
  { balancer: { placement }, config }: Gateway,
  key: string | undefined | Failure,
): bigint | Failure {
  if (typeof key === 'object') return key
  if (!placement) return unavailable({ reason: 'no-topology', retryAfterMs: 1_000 })
  if (key !== undefined) return placement.ring.position(key)
  const half = () => BigInt(Math.floor(config.clock.random() * 2 ** 32))
  return (half() << 32n) | half()
}

async function readKey(
  { config, routingKey }: Gateway,
  request: KeyRequest,
  plan: BodyPlan,
  body: RequestBody | undefined,
): Promise<string | undefined | Failure> {
  const slow = new AbortController()
  const timer = config.clock.setTimeout(() => slow.abort(), config.timeouts.idleMs)
  try {
    return routingKey.of(request, plan, await routingKey.peek(plan, body, slow.signal))
  } catch {
    return failures.bodyTooSlow // or the client left, and nobody reads this
  } finally {
    timer.cancel()
  }
}

function bodyOf(plan: BodyPlan, request: KeyRequest, replayLimit: number): RequestBody | undefined {
  if (plan.kind === 'bytes') return new RequestBody(plan.bytes, { replayLimit })
  return plan.kind === 'stream' ? new RequestBody(request, { replayLimit }) : undefined
}
