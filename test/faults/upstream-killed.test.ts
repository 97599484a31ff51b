import { expect } from 'vitest'
import { eventually } from '../support/servers.ts'
import { fault, long, scaled, sleep } from './fault.ts'

fault('SIGKILL of one of three upstreams', async (stage) => {
  const upstreams = await stage.upstreams('a', 'b', 'c')
  for (const upstream of upstreams) await upstream.behave({ kind: 'answer', afterMs: 20 })
  const { proxy, port } = await stage.gatewayTo(upstreams)
  const traffic = stage.traffic({ ports: [port] })
  await sleep(scaled(1_000, 5_000))
  await upstreams[1]?.kill()
  const killed = performance.now()
  await eventually('its ejection', () => proxy.status().upstreams[1]?.breaker === 'open')
  stage.converged(killed)
  await sleep(scaled(2_000, 15_000))

  const account = stage.take(await traffic.stop(upstreams))
  expect(account.failed).toEqual([])
  expect(account.lost).toEqual([])
  expect(account.executedTwice).toEqual([])
  expect(account.answeredTwice).toEqual([])
  // A POST that went down with its upstream may have been executed; one that was never sent goes to another.
  for (const { result, at } of account.unsafeFailed) {
    expect(result).toBe('502')
    expect(at).toBeLessThan(killed)
  }
})

fault('SIGSTOP of one of three upstreams, then SIGCONT', async (stage) => {
  const upstreams = await stage.upstreams('a', 'b', 'c')
  const { proxy, port } = await stage.gatewayTo(upstreams, {
    timeouts: { firstByteMs: scaled(300, 1_000) },
    ...(!long && { circuitBreaker: { openMs: 500 }, slowStart: { durationMs: 3_000 } }),
  })
  const shares: number[] = []
  const traffic = stage.traffic({ ports: [port] })
  const everySecond = setInterval(() => {
    const last = traffic.requests.filter(({ at }) => at >= performance.now() - 1_000)
    shares.push(Math.round((100 * last.filter(({ echo }) => echo?.upstream === 'b').length) / last.length))
  }, 1_000)
  stage.defer(() => clearInterval(everySecond))
  await sleep(1_000)
  upstreams[1]?.signal('SIGSTOP')
  await sleep(scaled(2_500, 20_000))
  const frozen = proxy.status().upstreams[1]
  upstreams[1]?.signal('SIGCONT')
  const thawed = performance.now()
  const isBack = () => proxy.status().upstreams[1]?.eligible
  await eventually('its return', isBack, 60_000)
  stage.converged(thawed)
  const ramping = proxy.status().upstreams[1]?.capacity ?? 0
  await sleep(scaled(4_000, 35_000))

  const account = stage.take(await traffic.stop(upstreams))
  console.log(`share of the frozen upstream in percent, second by second: ${shares.join(' ')}`)
  expect(frozen?.eligible).toBe(false)
  expect(account.failed).toEqual([])
  expect(account.lost).toEqual([])
  expect(account.executedTwice).toEqual([])
  // Sent and unanswered: whether they were executed nobody knows.
  for (const { result } of account.unsafeFailed) expect(result).toBe('504')
  const settled = proxy.status().upstreams[1]
  expect(settled?.eligible).toBe(true)
  expect(ramping).toBeLessThan(settled?.capacity ?? 0)
  expect(shares.at(-1)).toBeGreaterThan(15)
})
