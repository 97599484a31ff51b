import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { type Clock, systemClock, type Timer } from '../../src/clock.ts'
import {
  ClosedError,
  consistentHashProxy,
  HashRing,
  staticTopology,
  type TopologySource,
} from '../../src/index.ts'
import { metricOf } from '../support/metrics.ts'
import { ScriptedTopology } from '../support/scripted-topology.ts'
import { answerAfter, eventually, keyOwnedBy, startGateway, startUpstream } from '../support/servers.ts'
import {
  connectionsOf,
  openSocket,
  RawClient,
  startSocketGateway,
  startSocketUpstream,
  upgradeRequest,
} from '../support/web-sockets.ts'

/** The system's clock, with the timers that are set and neither fired nor cancelled. */
class CountingClock implements Clock {
  readonly pending = new Set<Timer>()
  readonly now = systemClock.now
  readonly random = systemClock.random

  setTimeout(callback: () => void, milliseconds: number): Timer {
    const timer = systemClock.setTimeout(() => {
      this.pending.delete(timer)
      callback()
    }, milliseconds)
    this.pending.add(timer)
    return {
      cancel: () => {
        this.pending.delete(timer)
        timer.cancel()
      },
    }
  }
}

describe('close()', () => {
  test('lets what is in flight finish, and answers what comes then with 503', async () => {
    const upstream = await startUpstream('a', answerAfter(200))
    const gateway = await startSocketGateway({
      key: 'path',
      topology: staticTopology([{ id: 'a', url: upstream.url }]),
    })
    const inFlight = fetch(gateway.url)
    await eventually('the request upstream', () => upstream.count === 1)
    let isClosed = false
    const closing = gateway.proxy.close().then(() => {
      isClosed = true
    })
    const late = await fetch(gateway.url)
    expect([late.status, late.headers.get('retry-after')]).toEqual([503, '1'])
    const lateSocket = new RawClient(gateway.port).send(upgradeRequest())
    await eventually('the answer', () => lateSocket.ended)
    lateSocket.socket.end()
    expect(lateSocket.head).toMatch(/^HTTP\/1.1 503 /)
    expect(isClosed).toBe(false)
    expect(await (await inFlight).text()).toBe('a')
    await closing
    expect(upstream.count).toBe(1)
    expect(gateway.proxy.status()).toMatchObject({ inFlight: 0, source: { state: 'closed' } })
    await eventually('no pooled connection', async () => (await connectionsOf(upstream)) === 0)
  })

  test('waits for an answer that its upstream has given and the client has not, as behind compression', async () => {
    const upstream = await startUpstream('a')
    let finish: (() => void) | undefined
    const gateway = await startGateway(
      { key: 'path', topology: staticTopology([{ id: 'a', url: upstream.url }]) },
      (app) => {
        app.use((_request, response, next) => {
          const end = response.end.bind(response)
          response.end = () => {
            finish = () => end()
            return response
          }
          next()
        })
      },
    )
    const answer = fetch(gateway.url)
    await eventually('the end of the answer', () => finish !== undefined)
    await eventually('its slot to be free', () => gateway.proxy.status().inFlight === 0)
    let isClosed = false
    const closing = gateway.proxy.close().then(() => {
      isClosed = true
    })
    await sleep(50)
    expect(isClosed).toBe(false)
    finish?.()
    await closing
    expect(await (await answer).text()).toBe('a')
  })

  test('cuts WebSockets and requests that outlast drainMs', async () => {
    const [room, slow] = [await startSocketUpstream('a'), await startUpstream('b', answerAfter(60_000))]
    const gateway = await startSocketGateway({
      key: 'header:x-id',
      topology: new ScriptedTopology([
        { id: 'a', url: room.upstream.url },
        { id: 'b', url: slow.url },
      ]),
      timeouts: { drainMs: 150 },
    })
    const ring = new HashRing([
      { id: 'a', weight: 1 },
      { id: 'b', weight: 1 },
    ])
    const { socket } = await openSocket(gateway, { 'x-id': keyOwnedBy(ring, 'a') })
    const request = fetch(gateway.url, { headers: { 'x-id': keyOwnedBy(ring, 'b') } }).catch(
      (error: unknown) => error,
    )
    await eventually('the request upstream', () => slow.count === 1)
    const started = performance.now()
    const cut = once(socket, 'close')
    await gateway.proxy.close()
    expect(performance.now() - started).toBeGreaterThan(140)
    expect((await cut)[0]).toBe(1006)
    expect(await request).toBeInstanceOf(Error)
    await eventually('nothing upstream', () => room.open.size === 0 && slow.active === 0)
    expect(gateway.proxy.status().upstreams.map(({ longLived }) => longLived)).toEqual([0, 0])
  })

  test('does not wait when nothing is in flight, stops timers and checks, and may be called twice', async () => {
    const upstream = await startUpstream('a')
    const clock = new CountingClock()
    const proxy = consistentHashProxy({
      key: 'path',
      topology: staticTopology([{ id: 'a', url: upstream.url }]),
      healthCheck: { intervalMs: 1 },
      clock,
    })
    await eventually('a health check', () => upstream.count > 0)
    await Promise.all([proxy.close(), proxy.close()])
    await proxy.close()
    // A check under way was broken off; its socket tells so a tick later.
    await eventually('no timer', () => clock.pending.size === 0, 500)
    expect(await proxy.metrics?.metrics()).not.toContain('consistent_hash_proxy_')
    await eventually('no connection upstream', async () => (await connectionsOf(upstream)) === 0)
  })

  test('leaves a process that ends by itself: static and file topologies, health checks, metrics, a ring', async () => {
    const loader = './test/support/typescript-loader.mjs'
    const child = spawn(process.execPath, ['--import', loader, 'test/middleware/one-life.ts'], {
      cwd: new URL('../../', import.meta.url),
      timeout: 15_000,
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let said = ''
    child.stdout.on('data', (text) => {
      said += text
    })
    const [code, signal] = await once(child, 'exit')
    expect({ said, code, signal }).toEqual({ said: 'served\nserved\nc\n', code: 0, signal: null })
  })
})

describe('ready()', () => {
  test('resolves with the first topology', async () => {
    const source = new ScriptedTopology()
    const gateway = await startGateway({ key: 'path', topology: source })
    let isReady = false
    const ready = gateway.proxy.ready().then(() => {
      isReady = true
    })
    await eventually('the source', () => source.opens === 1)
    expect(isReady).toBe(false)
    source.set(1n, [{ id: 'a' }])
    await ready
    await gateway.proxy.close()
    await gateway.proxy.ready() // it was
  })

  test('rejects when the proxy is closed before, and harms nobody who does not ask', async () => {
    const source = new ScriptedTopology()
    const proxy = consistentHashProxy({ key: 'path', topology: source })
    const ready = proxy.ready()
    ready.catch(() => {})
    await proxy.close()
    await expect(ready).rejects.toBeInstanceOf(ClosedError)
    await expect(proxy.ready()).rejects.toThrow('The proxy is closed')
  })
})

describe('a request before the first topology', () => {
  test('waits for it a moment', async () => {
    const upstream = await startUpstream('a')
    const source = new ScriptedTopology()
    const gateway = await startGateway({ key: 'path', topology: source })
    const request = fetch(gateway.url)
    await eventually('the source', () => source.opens === 1)
    await new Promise((resolve) => setTimeout(resolve, 50))
    source.set(1n, [{ id: 'a', url: upstream.url }])
    expect(await (await request).text()).toBe('a')
  })

  test('is answered 503 when none comes', async () => {
    const gateway = await startGateway({
      key: 'path',
      topology: new ScriptedTopology(),
      timeouts: { connectMs: 60 },
    })
    const started = performance.now()
    const { status, headers } = await fetch(gateway.url)
    expect([status, headers.get('retry-after')]).toEqual([503, '1'])
    expect(performance.now() - started).toBeGreaterThan(55)
    expect(await metricOf(gateway.proxy, 'requests_total', { status_class: '5xx', outcome: 'failed' })).toBe(
      1,
    )
  })

  test('is answered 503 at once when the source cannot be opened, which the status tells', async () => {
    const topology: TopologySource = {
      kind: 'file',
      open() {
        throw new Error('no such file')
      },
    }
    const gateway = await startGateway({ key: 'path', topology, timeouts: { connectMs: 10_000 } })
    expect((await fetch(gateway.url)).status).toBe(503)
    expect(gateway.proxy.status().source).toEqual({ state: 'connecting', error: 'no such file' })
    await gateway.close()
    expect(gateway.proxy.status().source).toEqual({ state: 'closed' })
  })

  test('does not keep close() waiting', async () => {
    const gateway = await startGateway({ key: 'path', topology: new ScriptedTopology() })
    const request = fetch(gateway.url)
    await eventually('the request', async () => (await connectionsOf(gateway)) === 1)
    await gateway.proxy.close()
    expect((await request).status).toBe(503)
  })
})
