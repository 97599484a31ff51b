import { createServer, type RequestListener } from 'node:http'
import { type AddressInfo, createServer as createTcpServer, type Server } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { type ProbeOptions, probe } from '../../src/health/probe.ts'
import { ManualClock } from '../support/manual-clock.ts'

const servers: (Server & { closeAllConnections?(): void })[] = []

afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections?.()
    server.close()
  }
})

async function listen(server: Server): Promise<URL> {
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/health`)
}

const serve = (listener: RequestListener) => listen(createServer(listener))

function check(target: URL, options: Partial<ProbeOptions> = {}, signal = new AbortController().signal) {
  return probe(target, { timeoutMs: 1_000, ...options }, systemClock, signal)
}

describe('probe', () => {
  it.each([
    [199, false],
    [200, true],
    [302, true],
    [399, true],
    [400, false],
    [503, false],
  ])('takes status %i as %s by default', async (status, passes) => {
    // 199 as an answer of its own would be informational: it never comes to a final one.
    const target = await serve((_request, response) => {
      if (status < 200) response.socket?.end(`HTTP/1.1 ${status} Odd\r\n\r\n`)
      else response.writeHead(status).end('body')
    })
    expect(await check(target)).toBe(passes)
  })

  it('takes only the expected statuses where they are given', async () => {
    const target = await serve((_request, response) => response.writeHead(418).end())
    expect(await check(target, { expectedStatuses: [200, 418] })).toBe(true)
    expect(await check(target, { expectedStatuses: [200] })).toBe(false)
  })

  it('sends a GET over a connection that is closed afterwards', async () => {
    const seen: (string | undefined)[] = []
    const target = await serve((request, response) => {
      seen.push(request.method, request.url, request.headers.connection)
      response.end('x'.repeat(100_000))
    })
    expect(await check(target)).toBe(true)
    expect(seen).toEqual(['GET', '/health', 'close'])
  })

  it('fails when nobody listens', async () => {
    const target = await serve(() => {})
    await new Promise((resolve) => servers.pop()?.close(resolve))
    expect(await check(target)).toBe(false)
  })

  it('fails when there is no answer in time', async () => {
    const target = await listen(createTcpServer((socket) => socket.on('error', () => {})))
    const started = performance.now()
    expect(await check(target, { timeoutMs: 100 })).toBe(false)
    expect(performance.now() - started).toBeLessThan(900)
  })

  it('fails when the answer breaks off or does not end in time', async () => {
    const broken = await serve((_request, response) => {
      response.writeHead(200, { 'content-length': 100 }).write('half')
      setTimeout(() => response.destroy(), 20)
    })
    const endless = await serve((_request, response) => response.writeHead(200).write('and so on'))
    expect(await check(broken)).toBe(false)
    expect(await check(endless, { timeoutMs: 100 })).toBe(false)
  })

  it('leaves no timer behind', async () => {
    const clock = new ManualClock()
    const target = await serve((_request, response) => response.end())
    const pending = probe(target, { timeoutMs: 1_000 }, clock, new AbortController().signal)
    expect(clock.pendingTimers).toBe(1)
    expect(await pending).toBe(true)
    expect(clock.pendingTimers).toBe(0)
  })

  it('ends at once when aborted', async () => {
    const target = await listen(createTcpServer((socket) => socket.on('error', () => {})))
    const stopping = new AbortController()
    const pending = check(target, { timeoutMs: 60_000 }, stopping.signal)
    setTimeout(() => stopping.abort(), 20)
    expect(await pending).toBe(false)
  })
})
