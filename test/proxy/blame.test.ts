import { connect } from 'node:net'
import { expect, it } from 'vitest'
import { type ConsistentHashProxyOptions, HashRing } from '../../src/index.ts'
import { call, startGatewayTo } from '../support/raw-http.ts'
import { eventually, type Handler, keyOwnedBy, receive, startUpstreams } from '../support/servers.ts'

const ring = new HashRing(['U1', 'U2'])
const key = keyOwnedBy(ring, 'U1')
const hang: Handler = (request, _response, upstream) => void receive(request, upstream).catch(() => {})

/** Two upstreams of which one failure each would be too many. */
async function setUp(options: Partial<ConsistentHashProxyOptions>, handler: Handler) {
  const upstreams = await startUpstreams(['U1', 'U2'], handler)
  const circuitBreaker = { consecutiveFailures: 1, maxEjectionPercent: 100, ...options.circuitBreaker }
  const gateway = await startGatewayTo(upstreams, { ...options, circuitBreaker })
  const breakers = () => gateway.proxy.status().upstreams.map(({ breaker }) => breaker)
  const idle = () => eventually('no request in flight', () => gateway.proxy.status().inFlight === 0)
  return { upstreams, gateway, breakers, idle }
}

it('a client that waited long for the first byte and left counts as a timeout; one that left early does not', async () => {
  const { gateway, breakers, idle, upstreams } = await setUp(
    { circuitBreaker: { abandonedAfterMs: 150 } },
    hang,
  )
  const leaveAfter = async (milliseconds: number) => {
    const leaving = new AbortController()
    const before = upstreams[0]?.count ?? 0
    const answer = fetch(gateway.url, { headers: { 'x-user-id': key }, signal: leaving.signal }).catch(
      () => {},
    )
    await eventually('the upstream to have the request', () => upstreams[0]?.count === before + 1)
    await new Promise((resolve) => setTimeout(resolve, milliseconds)) // the time itself is what is tested
    leaving.abort()
    await answer
    await idle()
  }
  await leaveAfter(20)
  expect(breakers()).toEqual(['closed', 'closed'])
  await leaveAfter(250)
  expect(breakers()).toEqual(['open', 'closed'])
})

it('the time a client takes to send its request is not waited for an answer', async () => {
  const { gateway, breakers, idle, upstreams } = await setUp(
    { circuitBreaker: { abandonedAfterMs: 50 } },
    hang,
  )
  const socket = connect(gateway.port, '127.0.0.1')
  socket.write(`POST / HTTP/1.1\r\nHost: h\r\nX-User-Id: ${key}\r\nContent-Length: 9\r\n\r\nfour`)
  await eventually('the upstream to have the head', () => upstreams[0]?.active === 1)
  await new Promise((resolve) => setTimeout(resolve, 150)) // the time itself is what is tested
  socket.destroy()
  await idle()
  expect(breakers()).toEqual(['closed', 'closed'])
})

it('a retry that the deadline left little time is not the failure of who was asked last', async () => {
  const { gateway, breakers, upstreams } = await setUp(
    { timeouts: { totalMs: 400 }, retry: { backoff: { baseMs: 0, maxMs: 0 } } },
    (request, response, upstream) => {
      if (upstream.id === 'U2') hang(request, response, upstream)
      else void receive(request, upstream).then(() => setTimeout(() => request.socket.destroy(), 250))
    },
  )
  expect((await call(gateway, { headers: { 'x-user-id': key } })).status).toBe(504)
  expect(upstreams.map(({ count }) => count)).toEqual([1, 1])
  expect(breakers()).toEqual(['open', 'closed'])
})

it('a first attempt that used up the deadline is a failure', async () => {
  const { gateway, breakers } = await setUp({ timeouts: { totalMs: 200 } }, hang)
  expect((await call(gateway, { headers: { 'x-user-id': key } })).status).toBe(504)
  expect(breakers()).toEqual(['open', 'closed'])
})

it('a client that stops reading, or stops sending, is not the failure of its upstream', async () => {
  const { gateway, breakers, idle, upstreams } = await setUp(
    { timeouts: { idleMs: 200 } },
    (request, response) => {
      if (request.method === 'GET') response.end(Buffer.alloc(30_000_000))
      else request.resume()
    },
  )
  const reader = connect(gateway.port, '127.0.0.1').pause()
  reader.write(`GET / HTTP/1.1\r\nHost: h\r\nX-User-Id: ${key}\r\n\r\n`)
  await eventually('the upstream to answer', () => upstreams[0]?.active === 1)
  await idle()
  reader.destroy()
  expect(breakers()).toEqual(['closed', 'closed'])
  const sender = connect(gateway.port, '127.0.0.1')
  sender.write(`POST / HTTP/1.1\r\nHost: h\r\nX-User-Id: ${key}\r\nContent-Length: 9\r\n\r\nfour`)
  let answer = ''
  sender.setEncoding('latin1').on('data', (text: string) => {
    answer += text
  })
  await eventually('the answer', () => answer.includes('\r\n\r\n'))
  sender.destroy()
  await idle()
  expect(answer).toMatch(/^HTTP\/1\.1 408 /)
  expect(breakers()).toEqual(['closed', 'closed'])
})
