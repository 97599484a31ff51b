import { expect } from 'vitest'
import { eventually } from '../support/servers.ts'
import { fault, scaled, sleep } from './fault.ts'

fault('all upstreams down, then up', async (stage) => {
  const upstreams = await stage.upstreams('a', 'b', 'c')
  const openMs = scaled(3_000, 5_000) // long enough for a process to start in half of it, on a busy machine too
  let attempts = 0
  const { proxy, port } = await stage.gatewayTo(upstreams, {
    circuitBreaker: { openMs },
    onRequest: () => {
      attempts += 1
    },
  })
  const traffic = stage.traffic({ ports: [port] })
  await sleep(scaled(1_000, 5_000))
  const down = performance.now()
  await Promise.all(upstreams.map((upstream) => upstream.kill()))
  await eventually('the ejection of all', () => proxy.status().upstreams.every(({ eligible }) => !eligible))
  const ejected = performance.now()
  const answer = await fetch(`http://127.0.0.1:${port}/`)
  // Within the first open period: a later one is twice as long.
  await sleep(openMs / 6)
  await Promise.all(upstreams.map((upstream) => upstream.restart()))
  const up = performance.now()
  await eventually(
    'the return of all',
    () => proxy.status().upstreams.every(({ eligible }) => eligible),
    2 * openMs,
  )
  const took = stage.converged(up)
  await sleep(scaled(1_000, 5_000))

  const account = stage.take(await traffic.stop(upstreams))
  expect(answer.status).toBe(503)
  expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0)
  expect(took).toBeLessThan(openMs * 1.1 + 500) // with the jitter, and time to be asked
  const whileDown = account.requests.filter(({ at }) => at > ejected && at < up)
  expect(whileDown.length).toBeGreaterThan(50)
  for (const { result } of whileDown) expect(result).toBe('503')
  // At once: a single one may meet a pause of the machine, most do not.
  const waits = whileDown.map(({ tookMs = 0 }) => tookMs).sort((one, other) => one - other)
  expect(waits[Math.floor(waits.length / 2)]).toBeLessThan(100)
  for (const { at, tookMs = 0 } of account.failed) {
    expect(at + tookMs).toBeGreaterThan(down)
    expect(at).toBeLessThan(up + took)
  }
  expect(account.lost).toEqual([])
  expect(account.executedTwice).toEqual([])
  expect(account.executions).toBeLessThanOrEqual(1.2 * account.sent + 3)
  expect(attempts).toBeLessThanOrEqual(3 * account.sent)
  console.log(`all down: ${attempts} attempts, ${account.executions} executions for ${account.sent} requests`)
})

fault('100 concurrent GETs while every upstream answers 503 and 503 is retried', async (stage) => {
  const upstreams = await stage.upstreams('a', 'b', 'c', 'd')
  for (const upstream of upstreams) await upstream.behave({ kind: 'unavailable', retryAfter: 0 })
  const { proxy, port } = await stage.gatewayTo(upstreams, {
    // Neither the breaker nor the load bound shall be what limits them.
    circuitBreaker: { consecutiveFailures: 1_000, minimumRequests: 1_000 },
    boundedLoad: false,
    retry: { statuses: [503], attempts: 3, backoff: { baseMs: 100 } },
  })
  const answers = await Promise.all(
    Array.from({ length: 100 }, (_, number) =>
      fetch(`http://127.0.0.1:${port}/`, {
        headers: { 'x-user-id': `user-${number}`, 'x-number': `${number}` },
      }),
    ),
  )
  const attempts = upstreams.reduce((sum, { executed }) => sum + executed.length, 0)
  stage.result.sent = answers.length
  console.log(`retry budget: ${attempts} attempts for ${answers.length} requests`)
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([503]))
  expect(attempts).toBeGreaterThan(100)
  expect(attempts).toBeLessThanOrEqual(120 + 3)
  expect(proxy.status().inFlight).toBe(0)
})
