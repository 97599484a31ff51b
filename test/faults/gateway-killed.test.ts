import { expect } from 'vitest'
import { fault, prefix, scaled, sleep } from './fault.ts'

fault('SIGKILL of one of two gateways, and a third started', async (stage) => {
  const [upstreams, etcd] = await Promise.all([stage.upstreams('a', 'b', 'c'), stage.etcd()])
  for (const { id, url } of upstreams) await etcd.put(`${prefix}upstreams/${id}`, { url })
  // Without the load bound: a burst would overflow, which moves requests and no key.
  const settings = { etcd: { hosts: etcd.endpoint, prefix }, boundedLoad: false as const }
  const start = async () => {
    const gateway = await stage.gatewayProcess(settings)
    await gateway.until(({ present }) => present === 3)
    return gateway
  }
  const [dying, survivor] = await Promise.all([start(), start()])
  // Four clients: two of each gateway's.
  const before = stage.traffic({ ports: [dying.port, survivor.port] })
  await sleep(scaled(1_500, 10_000))
  await dying.kill()
  const killed = performance.now()
  const third = await start()
  stage.converged(killed)
  const after = stage.traffic({ ports: [third.port, survivor.port], firstNumber: 1_000_000 })
  await sleep(scaled(1_500, 10_000))
  const accounts = await Promise.all([before, after].map((traffic) => traffic.stop(upstreams)))
  for (const account of accounts) stage.take(account)

  const reports = await Promise.all([survivor.report(), third.report()])
  expect(reports[0]?.status.ring.digest).toBe(reports[1]?.status.ring.digest)
  // The clients of the dead gateway lose what it had, and until they look elsewhere what they send it.
  const survivors = accounts.flatMap(({ failed, unsafeFailed }, index) =>
    [...failed, ...unsafeFailed].filter(({ gateway }) => gateway === 1 || index === 1),
  )
  expect(survivors).toEqual([])
  const owners = new Map<string, Set<string>>()
  for (const { key, echo } of accounts.flatMap(({ requests }) => requests)) {
    if (echo) owners.set(key, (owners.get(key) ?? new Set()).add(echo.upstream))
  }
  expect(owners.size).toBe(199)
  expect([...owners].filter(([, { size }]) => size > 1)).toEqual([])
  expect(
    accounts.flatMap(({ executedTwice, answeredTwice }) => [...executedTwice, ...answeredTwice]),
  ).toEqual([])
  stage.result.failed = survivors.length
})
