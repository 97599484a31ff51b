import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import { type ConsistentHashProxyOptions, HashRing } from '../../src/index.ts'
import { metricOf } from '../support/metrics.ts'
import { keyOwnedBy } from '../support/servers.ts'
import { UpstreamProcess } from '../support/upstream-process.ts'
import { Stage } from './fault.ts'

/** Two upstreams in processes of their own, and a request that the first one owns. */
async function startTwo(options: Partial<ConsistentHashProxyOptions> = {}) {
  const stage = new Stage('case')
  onTestFinished(() => stage.close())
  const first = await UpstreamProcess.start('a', { backlog: 1 })
  stage.defer(() => first.stop())
  const [second] = await stage.upstreams('b')
  if (!second) throw new Error('expected an upstream')
  const { proxy, port } = await stage.gatewayTo([first, second], options)
  const key = keyOwnedBy(new HashRing(['a', 'b']), 'a')
  const post = async (more: Record<string, string> = {}) => {
    const headers = { 'x-user-id': key, 'x-number': '1', ...more }
    const answer = await fetch(`http://127.0.0.1:${port}/`, { method: 'POST', body: 'five!', headers })
    return { status: answer.status, text: await answer.text() }
  }
  return { first, second, proxy, post }
}

describe('caddyserver/caddy#6259, #4245', () => {
  it('a POST whose upstream accepts and resets is answered 502, once executed, the reason counted', async () => {
    const { first, second, proxy, post } = await startTwo()
    await first.behave({ kind: 'reset' })
    expect(await post()).toMatchObject({ status: 502 })
    expect([first.executed, second.executed]).toEqual([[1], []])
    expect(await metricOf(proxy, 'unretried_failures_total', { reason: 'not-idempotent' })).toBe(1)
  })

  it('with Idempotency-Key it is retried', async () => {
    const { first, post } = await startTwo()
    await first.behave({ kind: 'reset' })
    expect(await post({ 'idempotency-key': 'k' })).toEqual({ status: 200, text: '1 b' })
  })

  it('an upstream that is silent to SYN costs the connect timeout, and the second answers within the deadline', async () => {
    const { first, post } = await startTwo({ timeouts: { connectMs: 500, totalMs: 2_000 } })
    await fillBacklog(first)
    const started = performance.now()
    expect(await post()).toEqual({ status: 200, text: '1 b' })
    expect(performance.now() - started).toBeGreaterThan(450)
    expect(performance.now() - started).toBeLessThan(1_200)
  })
})

/** Freezes the process and connects until its kernel answers no more. */
async function fillBacklog(upstream: UpstreamProcess): Promise<void> {
  upstream.signal('SIGSTOP')
  for (let count = 0; count < 10; count += 1) {
    const socket = connect({ port: upstream.port, host: '127.0.0.1' }).on('error', () => {})
    onTestFinished(() => {
      socket.destroy()
    })
    await sleep(100)
    if (socket.connecting) return
  }
  throw new Error('expected a connection that is not answered')
}
