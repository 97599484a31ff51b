import { type BodyPlan, describeBody } from '../http/consumed-body.ts'
import { RequestBody } from '../http/request-body.ts'
import type { KeyRequest } from '../key/key-source.ts'
import type { Client } from './client.ts'
import { type Failure, failures } from './failure.ts'
import type { Gateway } from './gateway.ts'
import { unavailable } from './no-upstream.ts'
import { originForm, type RequestHead, requestHead } from './outgoing-head.ts'
import { isIdempotent } from './verdict.ts'

/** A request whose key, head and body are ready to be sent, as often as need be. */
export interface PreparedRequest {
  readonly client: Client
  readonly head: RequestHead
  readonly body: RequestBody | undefined
  readonly position: bigint
  readonly idempotent: boolean
  readonly longLived: boolean
  /** Clock time by which the head of an answer has to be there. */
  readonly deadline: number
}

/** Reads the key, cleans the head and gets the body ready; or says why the request is refused. */
export async function prepare(
  gateway: Gateway,
  client: Client,
  started: number,
): Promise<PreparedRequest | Failure> {
  const { config, trust, routingKey, balancer } = gateway
  const { request } = client
  const plan = describeBody(request)
  if (plan.kind === 'refused') return { status: 500, code: 'BODY_NOT_FORWARDABLE', message: plan.message }
  const body = bodyOf(plan, request, config.limits.replayBytes)
  const key = await readKey(gateway, request, plan, body)
  if (typeof key === 'object') return key
  const { placement } = balancer
  if (!placement) return unavailable({ reason: 'no-topology', retryAfterMs: 1_000 })
  const path = originForm(request.url)
  const protectedNames = new Set(routingKey.source.headerNames)
  return {
    client,
    head: requestHead(request, {
      path: config.rewritePath ? checkedPath(config.rewritePath(path, request)) : path,
      plan,
      config,
      trust,
      protectedNames,
    }),
    body,
    position: key === undefined ? randomPosition(config.clock.random) : placement.ring.position(key),
    idempotent: isIdempotent(request.method ?? 'GET', request.headers['idempotency-key']),
    longLived: config.longLived?.(request) ?? false,
    deadline: started + config.timeouts.totalMs,
  }
}

async function readKey(
  { config, routingKey }: Gateway,
  request: KeyRequest,
  plan: BodyPlan,
  body: RequestBody | undefined,
): Promise<string | undefined | Failure> {
  if (routingKey.source.bodyLimit === 0) return routingKey.of(request, plan, undefined)
  try {
    const bytes = await routingKey.peek(plan, body, AbortSignal.timeout(config.timeouts.idleMs))
    return routingKey.of(request, plan, bytes)
  } catch {
    return failures.bodyTooSlow // or the client left, and nobody reads this
  }
}

function bodyOf(plan: BodyPlan, request: KeyRequest, replayLimit: number): RequestBody | undefined {
  if (plan.kind === 'bytes') return new RequestBody(plan.bytes, { replayLimit })
  return plan.kind === 'stream' ? new RequestBody(request, { replayLimit }) : undefined
}

/** What the operator's `rewritePath` gives goes on the wire as it is: it must not end the request line early. */
function checkedPath(path: unknown): string {
  if (typeof path === 'string' && /^\/[\x21-\xff]*$/.test(path)) return path
  throw new TypeError(
    `Expected rewritePath to return a path without white space, got ${JSON.stringify(path)}`,
  )
}

/** Any point of the circle with the same chance: a request without a key goes anywhere. */
function randomPosition(random: () => number): bigint {
  const half = () => BigInt(Math.floor(random() * 2 ** 32))
  return (half() << 32n) | half()
}
