import type { IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Lease } from '../balancer/lease.ts'
import { hasBody } from '../http/framing.ts'
import type { KeyRequest } from '../key/key-source.ts'
import { topologyHeaderNames } from '../topology-headers.ts'
import type { AttemptOutcome, UpgradeOutcome, UpstreamResponse } from '../transport/transport.ts'
import { answerHeaders } from './answer.ts'
import { Client, type Ending } from './client.ts'
import { type Failure, failures } from './failure.ts'
import type { Gateway } from './gateway.ts'
import { originForm, outgoingRequest, requestHead } from './outgoing-head.ts'
import { positionOf } from './prepare.ts'
import { failureBody, retryAfterSeconds, serialiseHead } from './respond.ts'
import { failureOf, planRetry, type RetryPlan } from './retry-plan.ts'
import { account } from './serve.ts'
import { tryOwners } from './try-owners.ts'
import { judge } from './verdict.ts'

/** A client that waits for its connection to be upgraded: there is no response object, only the socket. */
class UpgradeClient extends Client {
  readonly socket: Duplex

  constructor(request: KeyRequest, socket: Duplex) {
    super(request)
    this.socket = socket
    socket.on('error', () => {}) // told by `close`
    if (socket.destroyed) this.leave()
    else socket.once('close', () => this.leave())
  }

  override breakOff(): void {
    this.socket.destroy()
  }

  protected override answer(failure: Failure): void {
    const { type, body } = failureBody(this.request, failure)
    const headers: OutgoingHttpHeaders = {
      'content-type': type,
      'content-length': Buffer.byteLength(body),
      connection: 'close',
      ...(failure.retryAfterMs !== undefined && { 'retry-after': retryAfterSeconds(failure.retryAfterMs) }),
    }
    this.socket.end(serialiseHead(failure.status, undefined, headers) + body)
  }
}

/** Serves one upgrade from its key to the close of its sockets. Never rejects. */
export function serveUpgrade(
  gateway: Gateway,
  request: KeyRequest,
  socket: Duplex,
  head: Buffer,
): Promise<void> {
  const client = new UpgradeClient(request, socket)
  const { config, routingKey } = gateway
  return account(gateway, client, async (started) => {
    if (hasBody(request)) return client.fail(failures.upgradeWithBody)
    const position = positionOf(gateway, routingKey.of(request, { kind: 'none' }, undefined))
    if (typeof position === 'object') return client.fail(position)
    const path = originForm(request.url).slice(config.mountPath.length)
    const requested = requestHead(gateway, request, path.startsWith('/') ? path : `/${path}`, {
      kind: 'none',
    })
    const deadline = started + config.timeouts.totalMs
    return tryOwners(gateway, client, { position, longLived: true }, (lease, attempt) =>
      attemptUpgrade(gateway, { client, head, requested, position, deadline }, lease, attempt),
    )
  })
}

/** Whether an upgrade is meant for a proxy mounted at `mountPath`. */
export function isBelow(mountPath: string, url: string | undefined): boolean {
  const path = originForm(url)
  return path.startsWith(mountPath) && /^($|[/?])/.test(path.slice(mountPath.length))
}

interface PreparedUpgrade {
  readonly client: UpgradeClient
  readonly head: Buffer
  readonly requested: ReturnType<typeof requestHead>
  readonly position: bigint
  readonly deadline: number
}

/** One handshake with the upstream of one lease; the lease is released when the sockets are closed. */
async function attemptUpgrade(
  gateway: Gateway,
  { client, head, requested, position, deadline }: PreparedUpgrade,
  lease: Lease,
  attempt: number,
): Promise<Ending | RetryPlan> {
  const { config, transport, events, statusRules } = gateway
  const upstream = lease.spec.id
  try {
    const outgoing = outgoingRequest(requested, lease, attempt, position, config)
    outgoing.headers.connection = 'Upgrade'
    outgoing.headers.upgrade = client.request.headers.upgrade
    const left = Math.max(1, deadline - config.clock.now())
    const sent = transport.upgrade(outgoing, {
      socket: client.socket,
      head,
      timeouts: {
        connectMs: Math.min(config.timeouts.connectMs, left),
        handshakeMs: Math.min(config.timeouts.webSocketHandshakeMs, left),
      },
      onUpgraded: (headers) => cleanUpgraded(headers, config.exposeUpstreamId ? upstream : undefined),
    })
    client.whenGone(() => sent.abort())
    const outcome = await sent.outcome
    if (outcome.kind === 'upgraded') {
      lease.succeeded()
      await outcome.closed
      return { status: 101, outcome: 'answered', upstream }
    }
    if (outcome.kind === 'aborted') return client.left(upstream)
    const answered = asAttempt(outcome)
    // A handshake is a GET without a body: nothing is lost by asking twice.
    const { health, next } = judge(
      answered,
      { idempotent: true, replayable: true, isReplay: false },
      statusRules,
    )
    if (health !== undefined && health !== 'ignore') lease.failed(health, position)
    if (next.step === 'retry') {
      const plan = planRetry(gateway, next, { lease, attempt, deadline, outcome: answered })
      if (typeof plan === 'object') {
        sent.abort()
        events.emit('retry', { upstream, attempt, reason: next.reason })
        return plan
      }
      events.emit('giveUp', { upstream, attempt, reason: plan })
    }
    if (outcome.kind !== 'refused' || outcome.response.status === 421) {
      sent.abort()
      return client.fail(failureOf(answered), upstream)
    }
    lease.succeeded()
    return await passRefusalOn(client, outcome.response, upstream)
  } finally {
    lease.release()
  }
}

function asAttempt(outcome: Exclude<UpgradeOutcome, { kind: 'upgraded' }>): AttemptOutcome {
  return outcome.kind === 'refused' ? { kind: 'responded', response: outcome.response } : outcome
}

/** An answer other than 101 is the client's: status line, headers, body, and the end of the connection. */
async function passRefusalOn(
  client: UpgradeClient,
  response: UpstreamResponse,
  upstream: string,
): Promise<Ending> {
  const { socket } = client
  const headers = { ...answerHeaders(response.rawHeaders), connection: 'close' }
  socket.write(serialiseHead(response.status, response.statusText, headers))
  await new Promise<void>((resolve) => {
    socket.once('close', resolve)
    client.whenGone(() => response.body.destroy())
    response.body.once('close', () => {
      if (!response.isComplete()) socket.destroy()
    })
    response.body.pipe(socket)
  })
  return { status: response.status, outcome: response.isComplete() ? 'answered' : 'broken', upstream }
}

function cleanUpgraded(headers: IncomingHttpHeaders, exposedId: string | undefined): void {
  for (const name of topologyHeaderNames) delete headers[name]
  if (exposedId !== undefined) headers['x-upstream-id'] = encodeURI(exposedId)
}
