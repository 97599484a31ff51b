import { expect, test } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { type ConsistentHashProxyOptions, HashRing } from '../../src/index.ts'
import { metricOf } from '../support/metrics.ts'
import { ScriptedTopology } from '../support/scripted-topology.ts'
import {
  answerId,
  eventually,
  type Handler,
  keyOwnedBy,
  startGateway,
  startUpstreams,
  type TestUpstream,
} from '../support/servers.ts'

/** A gateway before upstreams `u1`, `u2`… that handle requests as given. */
async function gatewayBefore(
  handlers: readonly Handler[],
  options: Partial<ConsistentHashProxyOptions> = {},
) {
  const ids = handlers.map((_, index) => `u${index + 1}`)
  const handle: Handler = (request, response, upstream) =>
    handlers[ids.indexOf(upstream.id)]?.(request, response, upstream)
  const upstreams = await startUpstreams(ids, handle)
  const topology = new ScriptedTopology(upstreams.map(({ id, url }) => ({ id, url })))
  const { proxy, url } = await startGateway({ key: 'header:x-user-id', topology, ...options })
  await proxy.ready()
  const ring = new HashRing(ids)
  const send = (owner: string, init: RequestInit = {}) =>
    fetch(url, { ...init, headers: { 'x-user-id': keyOwnedBy(ring, owner) } })
  return { proxy, upstreams: upstreams as [TestUpstream, TestUpstream], send, ring, topology }
}

/** A handler that answers when it is let. */
function held(): { handler: Handler; release(): void } {
  const waiting: (() => void)[] = []
  return {
    handler: (_, response, { id }) => void waiting.push(() => response.end(id)),
    release: () => {
      for (const answer of waiting.splice(0)) answer()
    },
  }
}

const answer =
  (status: number): Handler =>
  (_, response) =>
    void response.writeHead(status).end()
const reset: Handler = (request) => void request.socket.destroy()
const silent: Handler = () => {}

test('requests and their durations, by last upstream, class of the status and how they ended', async () => {
  const { proxy, send } = await gatewayBefore([answerId, answer(404)])
  await Promise.all([send('u1'), send('u1'), send('u2')])
  const requests = (labels: Record<string, string>) => metricOf(proxy, 'requests_total', labels)
  expect(await requests({ upstream: 'u1', status_class: '2xx', outcome: 'answered' })).toBe(2)
  expect(await requests({ upstream: 'u2', status_class: '4xx', outcome: 'answered' })).toBe(1)
  expect(await requests({})).toBe(3)
  expect(await metricOf(proxy, 'request_duration_seconds_count', { upstream: 'u1' })).toBe(2)
  expect(await metricOf(proxy, 'request_duration_seconds_sum', { upstream: 'u1' })).toBeGreaterThan(0)
})

test('a client that leaves and an answer that breaks off are outcomes of their own', async () => {
  const brokenOff: Handler = (_, response) => {
    response.writeHead(200, { 'content-length': 100 }).write('half')
    setImmediate(() => response.destroy())
  }
  const { proxy, send } = await gatewayBefore([silent, brokenOff])
  const leaver = new AbortController()
  const left = send('u1', { signal: leaver.signal })
  await eventually('the request to be in flight', () => proxy.status().inFlight === 1)
  leaver.abort()
  await expect(left).rejects.toThrow()
  await expect(send('u2').then((reply) => reply.text())).rejects.toThrow()
  await eventually('both to be counted', async () => (await metricOf(proxy, 'requests_total')) === 2)
  expect(await metricOf(proxy, 'requests_total', { upstream: 'u1', outcome: 'client-gone' })).toBe(1)
  expect(await metricOf(proxy, 'requests_total', { upstream: 'u2', outcome: 'broken' })).toBe(1)
  expect(await metricOf(proxy, 'in_flight')).toBe(0)
})

test('in flight, capacity, and overflow by the rank of the owner that took it', async () => {
  const { handler, release } = held()
  const boundedLoad = { factor: 1.25, floor: 0 }
  const { proxy, send } = await gatewayBefore([handler, handler, handler, handler, handler], { boundedLoad })
  const replies = Array.from({ length: 30 }, () => send('u1').then((reply) => reply.text()))
  await eventually('all to be in flight', () => proxy.status().inFlight === 30)
  expect(await metricOf(proxy, 'in_flight')).toBe(30)
  // ceil(1.25 × 31 / 5): the one more is the request that would come next.
  expect(await metricOf(proxy, 'capacity', { upstream: 'u1' })).toBe(8)
  const byRank = await Promise.all(
    ['2', '3', '4+', '1', '5'].map((rank) => metricOf(proxy, 'overflow_total', { rank })),
  )
  release()
  const answered = await Promise.all(replies)
  const onOwner = answered.filter((id) => id === 'u1').length
  expect(byRank.slice(3)).toEqual([undefined, undefined])
  expect(byRank.slice(0, 3).every((count) => (count ?? 0) > 0)).toBe(true)
  expect((byRank[0] ?? 0) + (byRank[1] ?? 0) + (byRank[2] ?? 0)).toBe(30 - onOwner)
  expect(await metricOf(proxy, 'over_capacity_total')).toBeUndefined()
})

test('a retry that finds every upstream full is over capacity', async () => {
  const { handler, release } = held()
  const { proxy, send, upstreams } = await gatewayBefore([answerId, handler], {
    boundedLoad: { factor: 1, floor: 0 },
  })
  await upstreams[0].stop()
  const first = send('u2')
  await eventually('the first to be in flight', () => upstreams[1].active === 1)
  const second = send('u1')
  await eventually('the second to be in flight', () => upstreams[1].active === 2)
  expect(await metricOf(proxy, 'over_capacity_total', { upstream: 'u2' })).toBe(1)
  expect(await metricOf(proxy, 'retries_total', { reason: 'connect' })).toBe(1)
  release()
  expect((await Promise.all([first, second])).map(({ status }) => status)).toEqual([200, 200])
})

test.each([
  ['misdirected', answer(421), {}],
  ['reset', reset, {}],
  ['timeout', silent, { timeouts: { firstByteMs: 40 } }],
  ['status', answer(503), { retry: { statuses: [503] } }],
] satisfies [string, Handler, Partial<ConsistentHashProxyOptions>][])(
  'a retry is counted by its reason: %s',
  async (reason, handler, options) => {
    const { proxy, send } = await gatewayBefore([handler, answerId], options)
    expect((await send('u1')).status).toBe(200)
    expect(await metricOf(proxy, 'retries_total', { reason })).toBe(1)
    expect(await metricOf(proxy, 'retries_total')).toBe(1)
    expect(await metricOf(proxy, 'unretried_failures_total')).toBeUndefined()
    if (reason === 'misdirected') {
      const signs = { sign: 'misdirected', confirmed: 'false' }
      expect(await metricOf(proxy, 'stale_topology_signs_total', signs)).toBe(1)
    }
  },
)

test.each([
  ['budget', 'GET', { budget: { percent: 0, minPerSecond: 0 } }, 1],
  ['attempts', 'GET', { attempts: 0 }, undefined],
  ['not-idempotent', 'POST', {}, undefined],
] as const)(
  'a failure that is not tried again is counted by what forbids it: %s',
  async (reason, method, retry, ofBudget) => {
    const { proxy, send } = await gatewayBefore([reset, answerId], { retry })
    expect((await send('u1', { method })).status).toBe(502)
    expect(await metricOf(proxy, 'unretried_failures_total', { reason })).toBe(1)
    expect(await metricOf(proxy, 'unretried_failures_total')).toBe(1)
    expect(await metricOf(proxy, 'retry_budget_exhausted_total')).toBe(ofBudget ?? 0)
    expect(await metricOf(proxy, 'retries_total')).toBeUndefined()
  },
)

test('the state of a breaker, ejections by cause, and recoveries', async () => {
  let skipped = 0
  const clock = { ...systemClock, now: () => systemClock.now() + skipped }
  const circuitBreaker = { consecutiveFailures: 2, jitter: 0 }
  const { proxy, send, upstreams } = await gatewayBefore([answerId, answerId], { circuitBreaker, clock })
  const states = async () => {
    const entries = ['closed', 'open', 'half-open'].map(async (state) => [
      state,
      await metricOf(proxy, 'breaker_state', { upstream: 'u1', state }),
    ])
    return Object.fromEntries(await Promise.all(entries))
  }
  expect(await states()).toEqual({ closed: 1, open: 0, 'half-open': 0 })
  expect(await metricOf(proxy, 'eligible', { upstream: 'u1' })).toBe(1)
  await upstreams[0].stop()
  for (const _ of [1, 2]) expect((await send('u1')).status).toBe(200)
  expect(await states()).toEqual({ closed: 0, open: 1, 'half-open': 0 })
  expect(await metricOf(proxy, 'ejections_total', { upstream: 'u1', cause: 'connect' })).toBe(1)
  expect(await metricOf(proxy, 'eligible', { upstream: 'u1' })).toBe(0)
  expect(await metricOf(proxy, 'panic')).toBe(0)
  skipped = 5_000
  expect(await states()).toEqual({ closed: 0, open: 0, 'half-open': 1 })
  expect(await metricOf(proxy, 'recoveries_total')).toBeUndefined()
  await upstreams[0].restart()
  expect(await (await send('u1')).text()).toBe('u1')
  expect(await states()).toEqual({ closed: 1, open: 0, 'half-open': 0 })
  expect(await metricOf(proxy, 'recoveries_total', { upstream: 'u1' })).toBe(1)
})

test('panic while more is ejected than the cap allows', async () => {
  const circuitBreaker = { consecutiveFailures: 1, distinctKeys: 1 }
  const { proxy, send } = await gatewayBefore([answer(503), answer(503)], { circuitBreaker })
  await send('u1')
  expect(await metricOf(proxy, 'panic')).toBe(0)
  await send('u2')
  // The second one stays in choice, above the cap: it is not ejected.
  expect(await metricOf(proxy, 'ejections_total', { cause: 'answers' })).toBe(1)
  expect(await metricOf(proxy, 'panic')).toBe(1)
})
