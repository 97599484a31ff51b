import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { HealthChecker, type HealthCheckerOptions } from '../../src/health/health-checker.ts'
import { ManualClock } from '../support/manual-clock.ts'

const options: HealthCheckerOptions = {
  path: '/health?deep=1',
  intervalMs: 20,
  jitter: 0.2,
  timeoutMs: 500,
  healthyThreshold: 2,
  unhealthyThreshold: 3,
}

const cleanUps: (() => void)[] = []

afterEach(() => {
  for (const cleanUp of cleanUps.splice(0).reverse()) cleanUp()
})

function start(changed: Partial<HealthCheckerOptions> = {}, observe = () => {}) {
  const changes: string[] = []
  const onChange = (id: string, healthy: boolean) => {
    expect(checker.isHealthy(id)).toBe(healthy)
    changes.push(`${id} ${healthy ? 'healthy' : 'unhealthy'}`)
    observe()
  }
  const checker: HealthChecker = new HealthChecker({ ...options, ...changed }, systemClock, onChange)
  cleanUps.push(() => checker.close())
  return { checker, changes }
}

/** An upstream whose status can be changed and that notes what it was asked for; `hang` never answers. */
async function startUpstream(server: Server = createServer(), scheme = 'http') {
  const upstream = { url: '', status: 200, hang: false, asked: [] as (string | undefined)[] }
  server.on('request', (request, response) => {
    upstream.asked.push(request.url)
    if (!upstream.hang) response.writeHead(upstream.status).end('how it is')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  cleanUps.push(() => {
    server.close()
    server.closeAllConnections()
  })
  upstream.url = `${scheme}://127.0.0.1:${(server.address() as AddressInfo).port}`
  return upstream
}

const eventually = (assertion: () => void) => vi.waitFor(assertion, { timeout: 5_000, interval: 5 })

const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds))

describe('HealthChecker', () => {
  it('takes an upstream out after three failures in a row and back in after two passes', async () => {
    const upstream = await startUpstream()
    const { checker, changes } = start()
    checker.update([{ id: 'U1', url: upstream.url }])
    await eventually(() => expect(upstream.asked.length).toBeGreaterThan(2))
    expect(changes).toEqual([])

    upstream.status = 500
    await eventually(() => expect(changes).toEqual(['U1 unhealthy']))
    upstream.status = 204
    const before = upstream.asked.length
    await eventually(() => expect(changes).toEqual(['U1 unhealthy', 'U1 healthy']))
    expect(upstream.asked.length - before).toBeGreaterThanOrEqual(2)
  })

  it('asks below the base path of the URL', async () => {
    const upstream = await startUpstream()
    const { checker } = start()
    checker.update([
      { id: 'bare', url: upstream.url },
      { id: 'based', url: `${upstream.url}/base/path/` },
    ])
    await eventually(() =>
      expect(new Set(upstream.asked)).toEqual(new Set(['/health?deep=1', '/base/path/health?deep=1'])),
    )
  })

  it('takes what it does not know as healthy', () => {
    expect(start().checker.isHealthy('nobody')).toBe(true)
  })

  it('apache/apisix#2369: no longer asks an upstream that left', async () => {
    const [left, stays] = [await startUpstream(), await startUpstream()]
    left.status = 500
    const { checker, changes } = start()
    checker.update([
      { id: 'U2', url: left.url },
      { id: 'U3', url: stays.url },
    ])
    await eventually(() => expect(changes).toEqual(['U2 unhealthy']))
    checker.update([{ id: 'U3', url: stays.url }])
    const [askedLeft, askedStays] = [left.asked.length, stays.asked.length]
    await eventually(() => expect(stays.asked.length).toBeGreaterThan(askedStays + 5))
    expect(left.asked.length).toBeLessThanOrEqual(askedLeft + 1)
    expect(checker.isHealthy('U2')).toBe(true)
    expect(changes).toEqual(['U2 unhealthy'])
  })

  it('drops the result of a check under way when its upstream leaves', async () => {
    const upstream = await startUpstream()
    upstream.hang = true
    const { checker, changes } = start({ unhealthyThreshold: 1, timeoutMs: 100 })
    checker.update([{ id: 'U1', url: upstream.url }])
    await eventually(() => expect(upstream.asked).toHaveLength(1))
    checker.update([])
    await pause(200)
    expect(upstream.asked).toHaveLength(1)
    expect(changes).toEqual([])
  })

  it('keeps the verdict on an upstream that stays, and starts anew when its URL changes', async () => {
    const [ill, well] = [await startUpstream(), await startUpstream()]
    ill.status = 500
    const { checker, changes } = start()
    checker.update([{ id: 'U1', url: ill.url }])
    await eventually(() => expect(changes).toEqual(['U1 unhealthy']))
    checker.update([{ id: 'U1', url: ill.url }])
    expect(checker.isHealthy('U1')).toBe(false)
    checker.update([{ id: 'U1', url: well.url }])
    expect(changes).toEqual(['U1 unhealthy', 'U1 healthy'])
    const asked = ill.asked.length
    await eventually(() => expect(well.asked.length).toBeGreaterThan(5))
    expect(ill.asked.length).toBeLessThanOrEqual(asked + 1)
  })

  it('counts failures across updates that change nothing', async () => {
    const upstream = await startUpstream()
    upstream.status = 500
    let askedUntilChange = 0
    const { checker, changes } = start({ unhealthyThreshold: 4 }, () => {
      askedUntilChange = upstream.asked.length
    })
    for (let failures = 0; failures < 4; failures += 1) {
      checker.update([{ id: 'U1', url: upstream.url }])
      await eventually(() => expect(upstream.asked.length).toBeGreaterThan(failures))
    }
    await eventually(() => expect(changes).toEqual(['U1 unhealthy']))
    expect(askedUntilChange).toBe(4)
  })

  it('never has two checks of one upstream under way', async () => {
    const upstream = await startUpstream()
    upstream.hang = true
    const { checker } = start({ timeoutMs: 5_000 })
    checker.update([{ id: 'U1', url: upstream.url }])
    await pause(150)
    expect(upstream.asked).toHaveLength(1)
  })

  it('stops for good when closed', async () => {
    const upstream = await startUpstream()
    const { checker } = start({ intervalMs: 1 })
    checker.update([{ id: 'U1', url: upstream.url }])
    await eventually(() => expect(upstream.asked.length).toBeGreaterThan(3))
    checker.close()
    checker.close()
    checker.update([{ id: 'U1', url: upstream.url }])
    await pause(50)
    const asked = upstream.asked.length
    await pause(100)
    expect(upstream.asked).toHaveLength(asked)
  })

  it('leaves no timer behind when closed', () => {
    const clock = new ManualClock()
    const checker = new HealthChecker(options, clock, () => {})
    checker.update([
      { id: 'U1', url: 'http://127.0.0.1:1' },
      { id: 'U2', url: 'http://127.0.0.1:2' },
    ])
    expect(clock.pendingTimers).toBe(2)
    checker.close()
    expect(clock.pendingTimers).toBe(0)
  })

  it('verifies https upstreams, with the CA that it is given', async () => {
    const { cert, key } = selfSigned()
    const upstream = await startUpstream(createTlsServer({ cert, key }), 'https')
    const trusting = start({ tls: { ca: cert } })
    const strict = start()
    trusting.checker.update([{ id: 'U1', url: upstream.url }])
    strict.checker.update([{ id: 'U1', url: upstream.url }])
    await eventually(() => expect(strict.changes).toEqual(['U1 unhealthy']))
    await eventually(() => expect(upstream.asked.length).toBeGreaterThan(3))
    expect(trusting.changes).toEqual([])
  })
})

function selfSigned(): { cert: Buffer; key: Buffer } {
  const folder = mkdtempSync(join(tmpdir(), 'health-checker-'))
  cleanUps.push(() => rmSync(folder, { recursive: true }))
  const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')]
  const command =
    'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1'
  execFileSync('openssl', [...command.split(' '), '-keyout', key, '-out', cert], { stdio: 'pipe' })
  return { cert: readFileSync(cert), key: readFileSync(key) }
}
