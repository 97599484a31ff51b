import { Agent } from 'node:http'
import type { Socket } from 'node:net'
import { expect, test } from 'vitest'
import { metricOf } from '../support/metrics.ts'
import { call, startGatewayTo, startRawUpstream } from '../support/raw-http.ts'
import { eventually, startUpstream } from '../support/servers.ts'

const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

test('the keep-alive race: an upstream that closes idle connections a few ms after each answer fails no GET', async () => {
  const closing = new WeakMap<Socket, NodeJS.Timeout>()
  const upstream = await startRawUpstream('a', (socket) => {
    clearTimeout(closing.get(socket))
    socket.write(ok)
    closing.set(
      socket,
      setTimeout(() => socket.end(), 3 + (upstream.heads.length % 4)),
    )
  })
  const gateway = await startGatewayTo([upstream], { circuitBreaker: { consecutiveFailures: 1 } })
  const agent = new Agent({ keepAlive: true })
  let answered = 0
  // Each client asks again when an idle connection is about to be closed.
  const client = async (pauseMs: number) => {
    for (let count = 0; count < 50; count += 1) {
      const { status } = await call(gateway, { agent })
      if (status === 200) answered += 1
      await new Promise((resolve) => setTimeout(resolve, pauseMs))
    }
  }
  await Promise.all(Array.from({ length: 20 }, (_, index) => client(2 + (index % 5))))
  agent.destroy()
  expect(answered).toBe(1_000)
  // Else the race did not take place, and nothing is proved.
  expect(await metricOf(gateway.proxy, 'retries_total', { reason: 'stale-socket' })).toBeGreaterThan(0)
  expect(gateway.proxy.status()).toMatchObject({ inFlight: 0, upstreams: [{ breaker: 'closed' }] })
  expect(await metricOf(gateway.proxy, 'ejections_total')).toBeUndefined()
})

/** An upstream that answers a connection's first request and resets it at the second, having executed nothing. */
function startForgetful() {
  const answered = new WeakSet<Socket>()
  return startRawUpstream('a', (socket) => {
    if (answered.has(socket)) socket.resetAndDestroy()
    else socket.write(ok)
    answered.add(socket)
  })
}

test('a GET that meets a stale connection is replayed once on a fresh one: no failure, no attempt, its own reason', async () => {
  const upstream = await startForgetful()
  const gateway = await startGatewayTo([upstream], {
    circuitBreaker: { consecutiveFailures: 1 },
    retry: { attempts: 0 },
  })
  for (let count = 0; count < 5; count += 1) expect(await call(gateway)).toMatchObject({ status: 200 })
  expect(await metricOf(gateway.proxy, 'retries_total', { reason: 'stale-socket' })).toBe(2)
  expect(await metricOf(gateway.proxy, 'retries_total')).toBe(2)
  expect(upstream.heads.map((head) => /x-attempt: (\d)/i.exec(head)?.[1])).toEqual(Array(7).fill('1'))
  expect(gateway.proxy.status()).toMatchObject({ upstreams: [{ breaker: 'closed' }] })
})

test('a new connection that is reset was never idle: no replay, and a failure', async () => {
  const upstream = await startRawUpstream('a', (socket) => socket.resetAndDestroy())
  const gateway = await startGatewayTo([upstream], { retry: { attempts: 0 } })
  expect(await call(gateway)).toMatchObject({ status: 502 })
  expect(upstream.heads).toHaveLength(1)
  expect(await metricOf(gateway.proxy, 'retries_total')).toBeUndefined()
  expect(await metricOf(gateway.proxy, 'unretried_failures_total')).toBe(1)
})

test('a request that waited for the pool and got a stale connection is replayed as well', async () => {
  const upstream = await startForgetful()
  const gateway = await startGatewayTo([upstream], {
    limits: { connectionsPerUpstream: 1 },
    circuitBreaker: { consecutiveFailures: 1 },
  })
  const answers = await Promise.all([1, 2, 3, 4].map(() => call(gateway)))
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200])
  expect(await metricOf(gateway.proxy, 'retries_total', { reason: 'stale-socket' })).toBeGreaterThan(0)
  expect(gateway.proxy.status()).toMatchObject({ upstreams: [{ breaker: 'closed' }] })
})

test('a POST that meets a stale connection is not sent twice, unless its client allows it; and it is no failure', async () => {
  const upstream = await startForgetful()
  const gateway = await startGatewayTo([upstream], { circuitBreaker: { consecutiveFailures: 1 } })
  await call(gateway)
  expect(await call(gateway, { method: 'POST', body: 'once' })).toMatchObject({ status: 502 })
  expect(upstream.heads).toHaveLength(2)
  expect(await metricOf(gateway.proxy, 'unretried_failures_total', { reason: 'not-idempotent' })).toBe(1)
  await call(gateway)
  const headers = { 'idempotency-key': '1' }
  expect(await call(gateway, { method: 'POST', body: 'twice', headers })).toMatchObject({ status: 200 })
  expect(upstream.received.at(-1)).toMatch(/\r\n\r\ntwice$/)
  expect(gateway.proxy.status()).toMatchObject({ upstreams: [{ breaker: 'closed' }] })
})

test('connections are closed before the upstream’s own time is up, where it says so', async () => {
  const upstream = await startUpstream('a')
  upstream.server.keepAliveTimeout = 2_000 // announced as `Keep-Alive: timeout=2`
  const ended: number[] = []
  upstream.server.on('connection', (socket) => socket.once('end', () => ended.push(performance.now())))
  const gateway = await startGatewayTo([upstream])
  await call(gateway)
  const answered = performance.now()
  await eventually('the gateway to close its connection', () => ended.length === 1, 1_900)
  expect((ended[0] ?? 0) - answered).toBeLessThan(1_800)
})

test('idle connections are closed after idleMs', async () => {
  const upstream = await startRawUpstream('a', (socket) => socket.write(ok))
  const gateway = await startGatewayTo([upstream], { timeouts: { idleMs: 200 } })
  await call(gateway)
  expect(upstream.sockets.size).toBe(1)
  await eventually('the connection to close', () => upstream.sockets.size === 0)
})

test('no listener is left on a pooled connection, however many requests it carried', async () => {
  const upstream = await startUpstream('a')
  const gateway = await startGatewayTo([upstream], { limits: { connectionsPerUpstream: 1 } })
  const warnings: Error[] = []
  const note = (warning: Error) => warnings.push(warning)
  process.on('warning', note)
  for (let count = 0; count < 50; count += 1) await call(gateway, { method: 'PUT', body: 'x' })
  process.off('warning', note)
  expect(warnings).toEqual([])
  expect(upstream.count).toBe(50)
})
