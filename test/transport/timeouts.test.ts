import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { HashRing } from '../../src/index.ts'
import { metricOf } from '../support/metrics.ts'
import { type Call, type CallAnswer, call, startGatewayTo, startRawUpstream } from '../support/raw-http.ts'
import { answerAfter, eventually, keyOwnedBy, startUpstream, type TestGateway } from '../support/servers.ts'
import { RawClient } from '../support/web-sockets.ts'

const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
const nothing = () => {}

/** A port whose backlog is full behind a process that stands still: the kernel drops whoever else would connect. */
async function startBlackHole(): Promise<{ id: string; url: string }> {
  const script = `const s = require('net').createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => console.log(s.address().port))`
  const child: ChildProcess = spawn(process.execPath, ['-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  onTestFinished(() => {
    child.kill('SIGKILL')
  })
  if (!child.stdout) throw new Error('expected a pipe')
  const [line] = await once(child.stdout, 'data')
  const port = Number(line)
  child.kill('SIGSTOP')
  const fillers = Array.from({ length: 4 }, () => connect(port, '127.0.0.1').on('error', nothing))
  onTestFinished(() => {
    for (const filler of fillers) filler.destroy()
  })
  await once(fillers[0] as Socket, 'connect')
  return { id: 'a', url: `http://127.0.0.1:${port}` }
}

interface Timed extends CallAnswer {
  readonly milliseconds: number
}

async function timed(gateway: TestGateway, options?: Call): Promise<Timed> {
  const started = performance.now()
  const answer = await call(gateway, options)
  return { ...answer, milliseconds: performance.now() - started }
}

/** A short answer in the form that was asked for, which does not say where the upstreams are. */
async function expectFailure(
  gateway: TestGateway,
  [status, code, message]: [number, string, string],
  [from, to]: [number, number],
): Promise<void> {
  const text = await timed(gateway)
  const json = await timed(gateway, { headers: { accept: 'application/json' } })
  expect(text).toMatchObject({ status, headers: { 'content-type': 'text/plain; charset=utf-8' } })
  expect(text.body.toString()).toBe(`${message}\n`)
  expect(json).toMatchObject({ status, headers: { 'content-type': 'application/json' } })
  expect(JSON.parse(json.body.toString())).toEqual({ error: { code, message } })
  for (const { milliseconds, rawHeaders } of [text, json]) {
    expect(milliseconds).toBeGreaterThanOrEqual(from - 5)
    expect(milliseconds).toBeLessThan(to)
    expect(rawHeaders.join()).not.toContain('127.0.0.1')
  }
  expect(gateway.proxy.status().inFlight).toBe(0)
  expect(await metricOf(gateway.proxy, 'requests_total', { status_class: '5xx', outcome: 'failed' })).toBe(2)
}

const unreachable: [number, string, string] = [503, 'UPSTREAM_UNREACHABLE', 'No upstream could be reached']
const late: [number, string, string] = [504, 'UPSTREAM_TIMEOUT', 'The upstream did not answer in time']

describe('connectMs', () => {
  test('an upstream that does not answer to SYN: 503', async () => {
    const gateway = await startGatewayTo([await startBlackHole()], { timeouts: { connectMs: 200 } })
    await expectFailure(gateway, unreachable, [200, 900])
    expect((await call(gateway)).headers['retry-after']).toBe('1')
  })

  test('caddyserver/caddy#4245: connect timeout 500 ms, total 2 s, first upstream silent to SYN: the second answers', async () => {
    const other = await startUpstream('b')
    const options = { timeouts: { connectMs: 500, totalMs: 2_000 } }
    const gateway = await startGatewayTo([await startBlackHole(), other], options)
    const key = keyOwnedBy(new HashRing([{ id: 'a' }, { id: 'b' }]), 'a')
    const answer = await timed(gateway, { method: 'POST', headers: { 'x-user-id': key }, body: 'once' })
    expect(answer).toMatchObject({ status: 200, body: Buffer.from('b') })
    expect(answer.milliseconds).toBeLessThan(1_200)
    expect(other.received).toMatchObject([{ body: Buffer.from('once') }])
    expect(await metricOf(gateway.proxy, 'retries_total', { reason: 'connect' })).toBe(1)
  })

  test('an upstream that does not answer to the TLS handshake: 503', async () => {
    const silent = await startRawUpstream('a', nothing)
    const https = { id: 'a', url: silent.url.replace('http:', 'https:') }
    const gateway = await startGatewayTo([https], { timeouts: { connectMs: 200 } })
    await expectFailure(gateway, unreachable, [200, 900])
    await eventually('the connections to close', () => silent.sockets.size === 0)
  })
})

describe('firstByteMs', () => {
  test('an upstream that does not answer: 504', async () => {
    const silent = await startRawUpstream('a', nothing)
    const gateway = await startGatewayTo([silent], { timeouts: { firstByteMs: 200 } })
    await expectFailure(gateway, late, [200, 900])
    await eventually('the connections to close', () => silent.sockets.size === 0)
  })

  test('a head that does not end: 504', async () => {
    const slow = await startRawUpstream('a', (socket) => {
      socket.write('HTTP/1.1 200 OK\r\n')
      const drip = setInterval(() => socket.write('X-More: 1\r\n'), 50)
      socket.once('close', () => clearInterval(drip))
    })
    const gateway = await startGatewayTo([slow], { timeouts: { firstByteMs: 200, idleMs: 100 } })
    await expectFailure(gateway, late, [200, 900])
  })

  test('a free connection that does not come in that time: 504, and no upstream is ejected as unreachable', async () => {
    const silent = await startRawUpstream('a', nothing)
    const gateway = await startGatewayTo([silent], {
      limits: { connectionsPerUpstream: 1 },
      timeouts: { firstByteMs: 300 },
      circuitBreaker: { consecutiveFailures: 1 },
      boundedLoad: false,
    })
    const ejections: unknown[] = []
    gateway.proxy.on('ejection', (event) => ejections.push(event))
    const answers = await Promise.all([call(gateway), call(gateway)])
    expect(answers.map(({ status }) => status)).toEqual([504, 504])
    expect(ejections).not.toContainEqual(expect.objectContaining({ cause: 'connect' }))
    expect(silent.heads).toHaveLength(1)
    expect(await metricOf(gateway.proxy, 'retries_total')).toBeUndefined()
  })
})

describe('idleMs', () => {
  test('a body that stops coming breaks the client’s connection, and counts against the upstream', async () => {
    const stalled = await startRawUpstream('a', (socket) => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart of')
    })
    const gateway = await startGatewayTo([stalled], { timeouts: { idleMs: 150 } })
    await expect(call(gateway)).rejects.toMatchObject({ code: 'ECONNRESET' })
    await eventually('the connection to close', () => stalled.sockets.size === 0)
    expect(gateway.proxy.status().inFlight).toBe(0)
    expect(await metricOf(gateway.proxy, 'requests_total', { outcome: 'broken' })).toBe(1)
  })

  test('a body that comes slowly may last longer than any limit', async () => {
    const slow = await startRawUpstream('a', (socket) => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n')
      let left = 10
      const drip = setInterval(() => {
        socket.write('x')
        left -= 1
        if (left === 0) clearInterval(drip)
      }, 60)
    })
    const timeouts = { idleMs: 300, firstByteMs: 300, totalMs: 300 }
    const gateway = await startGatewayTo([slow], { timeouts })
    expect((await call(gateway)).body.toString()).toBe('xxxxxxxxxx')
  })

  test('an upstream that takes no more of the body: 504, and counts against it', async () => {
    const full = await startRawUpstream('a', (socket) => socket.pause())
    const gateway = await startGatewayTo([full], {
      timeouts: { idleMs: 200 },
      circuitBreaker: { consecutiveFailures: 1 },
    })
    const ejections: unknown[] = []
    gateway.proxy.on('ejection', (event) => ejections.push(event))
    const body = Buffer.alloc(30_000_000)
    expect(await call(gateway, { method: 'POST', body })).toMatchObject({ status: 504 })
    expect(await metricOf(gateway.proxy, 'unretried_failures_total', { reason: 'not-idempotent' })).toBe(1)
    expect(gateway.proxy.status().inFlight).toBe(0)
  })

  test('an answer that waits for the rest of an upload is not idle while that goes on', async () => {
    const upstream = await startUpstream('a', (request, response) => {
      response.flushHeaders()
      request.resume().once('end', () => response.end('all'))
    })
    const gateway = await startGatewayTo([upstream], { timeouts: { idleMs: 250 } })
    const client = new RawClient(gateway.port)
    client.send('POST / HTTP/1.1\r\nHost: gateway.test\r\nContent-Length: 10\r\n\r\n')
    for (let sent = 0; sent < 10; sent += 1) {
      client.send('x')
      await new Promise((resolve) => setTimeout(resolve, 80))
    }
    await eventually('the answer', () => client.body.includes('all'), 1_000)
    expect(upstream.active).toBe(0)
  })
})

describe('totalMs', () => {
  test('limits all attempts together', async () => {
    const silent = await Promise.all(['a', 'b', 'c'].map((id) => startRawUpstream(id, nothing)))
    const retry = { backoff: { baseMs: 1, maxMs: 1 } }
    const gateway = await startGatewayTo(silent, { timeouts: { firstByteMs: 250, totalMs: 400 }, retry })
    const answer = await timed(gateway)
    expect(answer.status).toBe(504)
    expect(answer.milliseconds).toBeGreaterThan(390)
    expect(answer.milliseconds).toBeLessThan(700)
    expect(silent.flatMap(({ heads }) => heads)).toHaveLength(2)
  })

  test('limits the phases of one attempt together', async () => {
    const held: Socket[] = []
    const upstream = await startRawUpstream('a', (socket) => held.push(socket))
    const gateway = await startGatewayTo([upstream], {
      limits: { connectionsPerUpstream: 1 },
      timeouts: { firstByteMs: 400, totalMs: 500 },
    })
    const first = call(gateway)
    await eventually('the first request', () => held.length === 1)
    const second = timed(gateway)
    setTimeout(() => held[0]?.write(ok), 300)
    expect(await first).toMatchObject({ status: 200 })
    const { status, milliseconds } = await second
    expect(status).toBe(504)
    expect(milliseconds).toBeLessThan(650)
    expect(upstream.heads).toHaveLength(2)
  })

  test('does not count the time that a client takes to send its body', async () => {
    const upstream = await startUpstream('a', answerAfter(100))
    const timeouts = { totalMs: 300, firstByteMs: 300, idleMs: 300 }
    const gateway = await startGatewayTo([upstream], { timeouts })
    const client = new RawClient(gateway.port)
    client.send('POST / HTTP/1.1\r\nHost: gateway.test\r\nContent-Length: 5\r\n\r\n')
    for (let sent = 0; sent < 5; sent += 1) {
      client.send('x')
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
    await eventually('the answer', () => client.received !== '')
    expect(client.received).toMatch(/^HTTP\/1.1 200 /)
  })
})
