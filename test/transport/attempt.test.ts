import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { targetOf } from '../../src/transport/transport.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { startRawUpstream } from '../support/raw-http.ts'
import { eventually, startUpstream } from '../support/servers.ts'
import { startTransport } from '../support/transport.ts'

const timeouts = { connectMs: 2_000, firstByteMs: 2_000, idleMs: 2_000 }
const totalMs = 2_000
const requestTo = (url: string) => ({ target: targetOf(url), method: 'POST', path: '/', headers: {} })

/** A body that notes how often it was asked for a piece. */
function watchedBody(text: string) {
  const read = function (this: Readable) {
    body.reads += 1
    this.push(body.reads === 1 ? text : null)
  }
  const open = () => new Readable({ highWaterMark: 0, read })
  const body = { reads: 0, open, trailers: () => [] }
  return body
}

test('a connection that an aborted request left half-open counts as none until it stands', async () => {
  const gone = await startUpstream('a')
  await gone.stop()
  const transport = startTransport()
  const body = watchedBody('body')
  transport.send(requestTo(gone.url), { timeouts, totalMs }).abort()
  // In the next turn the pool has the aborted request's socket, still connecting, and gives it to this one.
  await new Promise(process.nextTick)
  const outcome = await transport.send(requestTo(gone.url), { timeouts, totalMs, body }).outcome
  expect(outcome).toMatchObject({ kind: 'connectFailed' })
  expect(body.reads).toBe(0)
})

test('a body is read once the connection stands, by its own attempt only', async () => {
  const upstream = await startUpstream('a')
  const transport = startTransport()
  const [given, sent] = [watchedBody('given up'), watchedBody('sent')]
  const aborted = transport.send(requestTo(upstream.url), { timeouts, totalMs, body: given })
  aborted.abort()
  const outcome = await transport.send(requestTo(upstream.url), {
    timeouts,
    totalMs,
    body: sent,
  }).outcome
  expect(outcome).toMatchObject({ kind: 'responded' })
  expect(await aborted.outcome).toEqual({ kind: 'aborted' })
  expect(given.reads).toBe(0)
  expect(sent.reads).toBeGreaterThan(0)
})

test('whatever comes after the outcome changes nothing, and one timer does for all', async () => {
  const upstream = await startRawUpstream('a', (socket) => socket.end('HTTP/1.1 200 OK\r\n\r\n'))
  const clock = new ManualClock()
  const transport = startTransport(clock)
  for (const end of ['answer', 'abort', 'timeout'] as const) {
    const attempt = transport.send(requestTo(upstream.url), { timeouts, totalMs })
    if (end === 'abort') attempt.abort()
    if (end === 'timeout') clock.advance(2_001)
    const outcome = await attempt.outcome
    expect(clock.pendingTimers).toBeLessThanOrEqual(1)
    attempt.abort()
    expect(await attempt.outcome).toBe(outcome)
    expect(clock.pendingTimers).toBeLessThanOrEqual(1)
  }
  await eventually('the connections to close', () => upstream.sockets.size === 0)
})
