import { expect } from 'vitest'
import type { ConsistentHashProxy, ConsistentHashProxyOptions, ProxyStatus } from '../../src/index.ts'
import type { Account } from '../support/account.ts'
import { metricOf } from '../support/metrics.ts'
import type { Behaviour } from '../support/upstream-process.ts'
import { fault, type Stage, scaled, sleep } from './fault.ts'

/** One of three upstreams misbehaves for a while. */
async function misbehaving(
  stage: Stage,
  behaviour: Behaviour,
  options: (proxy: () => ConsistentHashProxy) => Partial<ConsistentHashProxyOptions> = () => ({}),
) {
  const upstreams = await stage.upstreams('a', 'b', 'c')
  const { proxy, port } = await stage.gatewayTo(upstreams, {
    timeouts: { firstByteMs: scaled(300, 1_000) },
    ...options(() => proxy),
  })
  const traffic = stage.traffic({ ports: [port], perSecond: scaled(150, 1_000) })
  await sleep(1_000)
  await upstreams[1]?.behave(behaviour)
  const started = performance.now()
  await sleep(scaled(3_000, 20_000))
  await upstreams[1]?.behave({ kind: 'answer' })
  await sleep(500)
  const account = stage.take(await traffic.stop(upstreams))

  expect(account.lost).toEqual([])
  expect(account.executedTwice).toEqual([])
  expect(account.answeredTwice).toEqual([])
  // The others: none of their own requests waits for the one that misbehaves.
  const others = account.requests.filter(({ result, echo }) => result === '200' && echo?.upstream !== 'b')
  expect(others.length).toBeGreaterThan(account.sent / 2)
  expect(proxy.status().inFlight).toBe(0)
  const retries = (await metricOf(proxy, 'retries_total')) ?? 0
  return { account, proxy, started, retries }
}

/** Retries stay within the budget: a fifth of the requests of 10 s, and 3 in any second. */
function expectWithinBudget({ sent }: Account, retries: number): void {
  expect(retries).toBeGreaterThan(0)
  expect(retries).toBeLessThanOrEqual(0.2 * sent + 3 * scaled(5, 22))
}

const unanswered: readonly [string, Behaviour, string][] = [
  ['an upstream takes requests and never answers', { kind: 'silent' }, '504'],
  ['an upstream answers one byte a second', { kind: 'slowHead', everyMs: 1_000 }, '504'],
  ['an upstream sends headers without end', { kind: 'endlessHeaders' }, '502'],
  ['an upstream resets each request unanswered', { kind: 'reset' }, '502'],
]
for (const [name, behaviour, status] of unanswered) {
  fault(name, async (stage) => {
    const { account, retries } = await misbehaving(stage, behaviour)
    expect(account.failed).toEqual([])
    for (const { result } of account.unsafeFailed) expect(result).toBe(status)
    expectWithinBudget(account, retries)
  })
}

fault('an upstream sends a body of one byte a second', async (stage) => {
  const admissions: ProxyStatus[] = []
  const { account } = await misbehaving(
    stage,
    { kind: 'slowBody', everyMs: scaled(300, 1_000) },
    (proxy) => ({
      onRequest: ({ upstream }) => {
        if (upstream.id === 'b') admissions.push(proxy().status())
      },
    }),
  )
  // Slow is not broken: every answer is whole in the end. Those under way hold their slots, so the load bound keeps
  // most requests of this owner from it.
  expect(account.failed).toEqual([])
  expect(account.requests.filter(({ tookMs = 0 }) => tookMs > 1_000).length).toBeGreaterThan(5)
  for (const { inFlight, upstreams } of admissions)
    expect(upstreams[1]?.inFlight).toBeLessThanOrEqual(Math.max(8, Math.ceil((1.25 * inFlight) / 3)))
})

fault('an upstream resets within the body', async (stage) => {
  const { account, started } = await misbehaving(stage, { kind: 'resetWithinBody' })
  // Behind the first byte nothing is tried again: the client sees the transfer break, never a short 200 that looks whole.
  const broken = [...account.failed, ...account.unsafeFailed]
  expect(broken.length).toBeGreaterThan(0)
  for (const { result, at } of broken) {
    // What a client calls it depends on what it reads first: the end without the whole body, or the reset.
    expect(['aborted', 'ECONNRESET']).toContain(result)
    expect(at).toBeGreaterThan(started - 100)
  }
  // The breaker ends it.
  expect(broken.length).toBeLessThan(30)
})

fault('an upstream answers 503 with Retry-After to all', async (stage) => {
  const { account, retries } = await misbehaving(stage, { kind: 'unavailable', retryAfter: 1 }, () => ({
    retry: { statuses: [503] },
  }))
  expectWithinBudget(account, retries)
  for (const { result } of account.unsafeFailed) expect(result).toBe('503')
  // What is retried waits as long as the upstream asks for.
  const retried = account.requests.filter(({ result, tookMs = 0 }) => result === '200' && tookMs > 1_000)
  expect(retried.length).toBeGreaterThan(0)
  expect(account.failed).toEqual([])
})
