import { describe, expect, it } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { type ConsistentHashProxyOptions, HashRing } from '../../src/index.ts'
import { metricOf } from '../support/metrics.ts'
import { type Call, call, startGatewayTo } from '../support/raw-http.ts'
import { answerId, type Handler, keyOwnedBy, receive, startUpstreams } from '../support/servers.ts'

const ids = ['U1', 'U2', 'U3']
const ring = new HashRing(ids)
const key = keyOwnedBy(ring, 'U2')
const order = ring.owners(key, 3)
const noWait = { baseMs: 0, maxMs: 0 }
const chanceAtMost = { ...systemClock, random: () => 0.999 }

const reset: Handler = (request, _response, upstream) => {
  void receive(request, upstream).then(() => request.socket.destroy())
}
const hang: Handler = (request, _response, upstream) => void receive(request, upstream)
const status =
  (code: number, headers: Record<string, string> = {}): Handler =>
  (request, response, upstream) => {
    void receive(request, upstream).then(() =>
      response.writeHead(code, headers).end(`${upstream.id} says ${code}`),
    )
  }

/** Three upstreams of which the key's owner does `first`, its second owner `second`; the rest answer. */
async function setUp(
  options: Partial<ConsistentHashProxyOptions>,
  first: Handler,
  second: Handler = answerId,
) {
  const upstreams = await startUpstreams(ids, (request, response, upstream) => {
    const handler = upstream.id === order[0] ? first : upstream.id === order[1] ? second : answerId
    handler(request, response, upstream)
  })
  const gateway = await startGatewayTo(upstreams, { exposeUpstreamId: true, ...options })
  const send = async (options: Call = {}) => {
    const headers = { 'x-user-id': key, accept: 'application/json', ...options.headers }
    const { status, headers: answered, body } = await call(gateway, { ...options, headers })
    const text = body.toString()
    const code = text.startsWith('{') ? String(JSON.parse(text).error.code) : undefined
    return { status, text, code, retryAfter: answered['retry-after'] }
  }
  const received = () => order.map((id) => upstreams.find((upstream) => upstream.id === id)?.count)
  const breakers = () =>
    order.map((id) => gateway.proxy.status().upstreams.find((known) => known.id === id)?.breaker)
  const metric = (name: string, labels?: Record<string, string>) => metricOf(gateway.proxy, name, labels)
  return { upstreams, gateway, send, received, breakers, metric }
}

async function timed<T>(work: Promise<T>): Promise<{ result: T; milliseconds: number }> {
  const started = performance.now()
  return { result: await work, milliseconds: performance.now() - started }
}

describe('how often and how long', () => {
  it('attempts: as many as allowed, then what the last one came to', async () => {
    const { send, received, metric } = await setUp({ retry: { attempts: 1, backoff: noWait } }, reset, reset)
    expect(await send()).toMatchObject({ status: 502, code: 'UPSTREAM_RESET' })
    expect(received()).toEqual([1, 1, 0])
    expect(await metric('unretried_failures_total', { reason: 'attempts' })).toBe(1)
  })

  it('perTryTimeoutMs: a silent upstream is left for the next one in time', async () => {
    const { send, metric } = await setUp({ retry: { perTryTimeoutMs: 100, backoff: noWait } }, hang)
    const { result, milliseconds } = await timed(send())
    expect(result).toMatchObject({ status: 200, text: order[1] })
    expect(milliseconds).toBeLessThan(1_000)
    expect(await metric('retries_total', { reason: 'timeout' })).toBe(1)
  })

  it('timeouts.totalMs: no attempt goes on behind it, and 504 is the answer', async () => {
    const retry = { attempts: 9, perTryTimeoutMs: 200, backoff: noWait }
    const { send, received, gateway } = await setUp({ timeouts: { totalMs: 300 }, retry }, hang, hang)
    const { result, milliseconds } = await timed(send())
    expect(result).toMatchObject({ status: 504, code: 'UPSTREAM_TIMEOUT' })
    expect(milliseconds).toBeGreaterThanOrEqual(295)
    expect(milliseconds).toBeLessThan(1_000)
    expect(received()).toEqual([1, 1, 0])
    expect(gateway.proxy.status().inFlight).toBe(0)
  })

  it('backs off behind what was sent, and not behind a connection that was refused', async () => {
    const retry = { backoff: { baseMs: 300, maxMs: 300 } }
    const { send, upstreams } = await setUp({ retry, clock: chanceAtMost }, reset)
    expect((await timed(send())).milliseconds).toBeGreaterThanOrEqual(295)
    await upstreams.find(({ id }) => id === order[0])?.stop()
    expect((await timed(send())).milliseconds).toBeLessThan(250)
  })

  it('a client that leaves during the back-off is not sent for again', async () => {
    const { gateway, received, metric } = await setUp(
      {
        retry: { backoff: { baseMs: 60_000, maxMs: 60_000 } },
        timeouts: { totalMs: 120_000 },
        clock: chanceAtMost,
      },
      reset,
    )
    const signal = AbortSignal.timeout(200)
    await expect(fetch(gateway.url, { headers: { 'x-user-id': key }, signal })).rejects.toThrow()
    await expect.poll(() => metric('requests_total', { outcome: 'client-gone' })).toBe(1)
    expect(received()).toEqual([1, 0, 0])
  })

  it('Retry-After is honoured within the deadline; beyond it the answer is passed on', async () => {
    const retry = { statuses: [503], backoff: noWait }
    const within = await setUp({ retry }, status(503, { 'retry-after': '1' }))
    const { result, milliseconds } = await timed(within.send())
    expect(result).toMatchObject({ status: 200, text: order[1] })
    expect(milliseconds).toBeGreaterThanOrEqual(995)
    const date = new Date(Date.now() + 600_000).toUTCString()
    for (const after of ['3600', date]) {
      const beyond = await setUp({ retry }, status(503, { 'retry-after': after }))
      expect(await beyond.send()).toMatchObject({
        status: 503,
        text: `${order[0]} says 503`,
        retryAfter: after,
      })
      expect(beyond.received()).toEqual([1, 0, 0])
      expect(await beyond.metric('unretried_failures_total', { reason: 'deadline' })).toBe(1)
    }
  })

  it('the budget counts what is admitted while it still waits; refused connections are outside it', async () => {
    const retry = { budget: { percent: 0, minPerSecond: 2 }, backoff: { baseMs: 100, maxMs: 100 } }
    const { send, upstreams, metric } = await setUp(
      { retry, boundedLoad: false, circuitBreaker: { consecutiveFailures: 99, minimumRequests: 99 } },
      reset,
    )
    const answers = await Promise.all(Array.from({ length: 6 }, () => send()))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(2)
    expect(answers.filter(({ status }) => status === 502)).toHaveLength(4)
    expect(await metric('retry_budget_exhausted_total')).toBe(4)
    await upstreams.find(({ id }) => id === order[0])?.stop()
    const refused = await Promise.all(Array.from({ length: 6 }, () => send()))
    expect(refused.every(({ status, text }) => status === 200 && text === order[1])).toBe(true)
  })
})

describe('what may be retried', () => {
  const post = { method: 'POST', body: 'hello' }

  it('a POST whose bytes were sent is not, and is executed once', async () => {
    const { send, received, metric } = await setUp({}, reset)
    expect(await send(post)).toMatchObject({ status: 502, code: 'UPSTREAM_RESET' })
    expect(received()).toEqual([1, 0, 0])
    expect(await metric('unretried_failures_total', { reason: 'not-idempotent' })).toBe(1)
  })

  it('with an Idempotency-Key it is, body and all', async () => {
    const { send, upstreams } = await setUp({ retry: { backoff: noWait } }, reset)
    const answer = await send({ ...post, headers: { 'idempotency-key': '"1"' } })
    expect(answer).toMatchObject({ status: 200, text: order[1] })
    const received = upstreams.find(({ id }) => id === order[1])?.received[0]
    expect(received).toMatchObject({ method: 'POST', headers: { 'x-attempt': '2', 'x-ring-owner': 'U2' } })
    expect(received?.body.toString()).toBe('hello')
  })

  it('statuses are answers unless they are listed, and then only for idempotent requests', async () => {
    const plain = await setUp({}, status(503))
    expect(await plain.send()).toMatchObject({ status: 503, text: 'U2 says 503' })
    const listed = await setUp({ retry: { statuses: [503], backoff: noWait } }, status(503))
    expect(await listed.send(post)).toMatchObject({ status: 503, text: 'U2 says 503' })
    expect(await listed.send()).toMatchObject({ status: 200, text: order[1] })
    expect(await listed.metric('retries_total', { reason: 'status' })).toBe(1)
  })

  it('nobody is asked twice: with nowhere left to go a listed status is the answer, at once', async () => {
    const [upstream] = await startUpstreams(['U1'], status(503, { 'retry-after': '2' }))
    const gateway = await startGatewayTo(upstream ? [upstream] : [], { retry: { statuses: [503] } })
    const { result, milliseconds } = await timed(call(gateway))
    expect(result.status).toBe(503)
    expect(result.body.toString()).toBe('U1 says 503')
    expect(milliseconds).toBeLessThan(1_000)
    expect(upstream?.count).toBe(1)
    expect(await metricOf(gateway.proxy, 'unretried_failures_total', { reason: 'no-upstream' })).toBe(1)
  })

  it.each(['same', 'next'] as const)('istio/istio#50759: hostPolicy %s', async (hostPolicy) => {
    let asked = 0
    const failsOnce: Handler = (request, response, upstream) => {
      asked += 1
      ;(asked === 1 ? status(503) : answerId)(request, response, upstream)
    }
    const { send, upstreams } = await setUp(
      { retry: { hostPolicy, statuses: [503], backoff: noWait } },
      failsOnce,
    )
    const answeredBy = hostPolicy === 'same' ? order[0] : order[1]
    expect(await send()).toMatchObject({ status: 200, text: answeredBy })
    const { headers } = upstreams.find(({ id }) => id === answeredBy)?.received.at(-1) ?? {}
    expect(headers).toMatchObject({ 'x-attempt': '2', 'x-ring-owner': 'U2' }) // on `next` an off-owner request
  })

  it('a retry that finds nowhere to go is given up and was none: what is counted was sent', async () => {
    const upstreams = await startUpstreams(['U1', 'U2'])
    const gateway = await startGatewayTo(upstreams)
    await Promise.all(upstreams.map((upstream) => upstream.stop()))
    expect((await call(gateway)).status).toBe(503)
    expect(await metricOf(gateway.proxy, 'retries_total')).toBe(1)
    expect(await metricOf(gateway.proxy, 'unretried_failures_total', { reason: 'no-upstream' })).toBe(1)
  })

  it('421 to the end is 503 with Retry-After', async () => {
    const upstreams = await startUpstreams(ids, status(421))
    const gateway = await startGatewayTo(upstreams)
    const answer = await call(gateway, { headers: { 'x-user-id': key, accept: 'application/json' } })
    expect(answer).toMatchObject({ status: 503, headers: { 'retry-after': '1' } })
    expect(JSON.parse(answer.body.toString())).toMatchObject({ error: { code: 'MISDIRECTED' } })
    expect(upstreams.map(({ count }) => count)).toEqual([1, 1, 1])
  })
})
