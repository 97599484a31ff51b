import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { eventually, startUpstream } from '../support/servers.ts'
import { build, start, startGatewayProgram } from './program.ts'

beforeAll(build)

async function takenPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
  })
  return (server.address() as AddressInfo).port
}

const idFor = async (url: string, user: string) => {
  const answer = await fetch(url, { headers: { 'x-user-id': user } })
  expect(answer.status).toBe(200)
  expect(await answer.text()).toContain(answer.headers.get('x-upstream-id'))
  return answer.headers.get('x-upstream-id')
}

describe('the example gateway without configuration', () => {
  test('300 requests of 60 users: each user always on one upstream, all three used', async () => {
    const { url, adminUrl } = await startGatewayProgram()
    const idsOf = new Map<string, Set<string | null>>()
    // No more at once than an upstream may always have (LOAD_FLOOR 8): above it, overflow is by design.
    for (let request = 0; request < 300; request += 6) {
      await Promise.all(
        Array.from({ length: 6 }, async (_, lane) => {
          const user = `user-${(request + lane) % 60}`
          idsOf.set(user, (idsOf.get(user) ?? new Set()).add(await idFor(url, user)))
        }),
      )
    }
    expect([...idsOf.values()].map((ids) => ids.size)).toEqual(Array(60).fill(1))
    expect(new Set([...idsOf.values()].flatMap((ids) => [...ids]))).toEqual(
      new Set(['demo-1', 'demo-2', 'demo-3']),
    )
    const metrics = await (await fetch(`${adminUrl}/metrics`)).text()
    const counted = [...metrics.matchAll(/^consistent_hash_proxy_requests_total\{.*2xx.*\} (\d+)$/gm)]
    expect(counted.reduce((sum, [, count]) => sum + Number(count), 0)).toBe(300)
  })

  test('prints three curl lines that work, and keeps the log out of them', async () => {
    const { program, url, adminUrl } = await startGatewayProgram()
    await program.prints(/requests_total/)
    const lines = program.stdout.split('\n').filter((line) => line.trimStart().startsWith('curl '))
    expect(lines).toHaveLength(3)
    expect(lines[0]).toContain(`-H 'x-user-id: alice' ${url}/`)
    expect(lines[1]).toContain(`${adminUrl}/status`)
    expect(lines[2]).toContain(`${adminUrl}/metrics`)
    expect(program.stdout).not.toContain('"level"')
    await eventually('the log', () => program.stderr.includes('a new topology is in use'))
  })

  test('tells how it is on the admin port, and only there', async () => {
    const { url, adminUrl } = await startGatewayProgram()
    const ask = async (path: string) => (await fetch(adminUrl + path)).json()
    expect(await ask('/healthz')).toEqual({ alive: true })
    expect(await ask('/readyz')).toEqual({ ready: true, degraded: false, source: { state: 'live' } })
    expect(await ask('/status')).toMatchObject({
      upstreams: [{ id: 'demo-1' }, { id: 'demo-2' }, { id: 'demo-3' }],
    })
    expect(await (await fetch(`${url}/status`)).text()).toContain('got GET /status')
  })
})

describe('its environment', () => {
  test('a bad value ends it with one line: name, expected, got', async () => {
    const program = start('gateway', { PORT: '80a' })
    expect(await program.ended()).toBe(1)
    expect(program.stderr).toBe("PORT: expected a port from 0 to 65535 (0: any free one), got '80a'\n")
    expect(program.stdout).toBe('')
  })

  test('each bad value has its line, an empty one counts as not set', async () => {
    const program = start('gateway', {
      PORT: '65536',
      ADMIN_PORT: '-1',
      HASH_KEY: 'heder:x',
      UPSTREAMS: 'http://a,ftp://b',
      ETCD_HOSTS: '127.0.0.1:2379',
      ETCD_PREFIX: '/',
      BALANCE_FACTOR: '0.9',
      LOAD_FLOOR: '0x8',
      DRAIN_MS: '1.5',
      LOG_LEVEL: 'loud',
      HOST: '',
    })
    expect(await program.ended()).toBe(1)
    expect(program.stderr.trimEnd().split('\n')).toEqual([
      "PORT: expected a port from 0 to 65535 (0: any free one), got '65536'",
      "ADMIN_PORT: expected a port from 0 to 65535 (0: any free one), got '-1'",
      expect.stringMatching(/^HASH_KEY: .*did you mean header.*'heder:x'/),
      expect.stringMatching(/^UPSTREAMS: topology\[1\]: url: expected an http.*, got "ftp:\/\/b"/),
      expect.stringMatching(/^ETCD_HOSTS: hosts: expected "http:.*, got "127.0.0.1:2379"/),
      expect.stringMatching(/^ETCD_PREFIX: prefix: expected a key prefix .*, got "\/"/),
      "BALANCE_FACTOR: expected a number from 1 to 1000, got '0.9'",
      "LOAD_FLOOR: expected a number from 0 to 1000000, got '0x8'",
      "DRAIN_MS: expected milliseconds from 0 to 600000, got '1.5'",
      "LOG_LEVEL: expected one of trace, debug, info, warn, error, fatal, silent, got 'loud'",
    ])
  })

  test.each([
    [',', /^UPSTREAMS: topology: expected a list of at least one upstream, got \[\]\n$/],
    ['a=http://a*0', /^UPSTREAMS: topology\[0\]: weight: expected .*, got 0\n$/],
  ])('UPSTREAMS=%s ends it with one line', async (UPSTREAMS, line) => {
    const program = start('gateway', { UPSTREAMS })
    expect(await program.ended()).toBe(1)
    expect(program.stderr).toMatch(line)
  })

  test('a user without a password ends it with one line', async () => {
    const program = start('gateway', { ETCD_HOSTS: 'http://127.0.0.1:1', ETCD_USERNAME: 'gateway' })
    expect(await program.ended()).toBe(1)
    expect(program.stderr).toBe('ETCD_PASSWORD: expected the password of ETCD_USERNAME, got none\n')
  })

  test.each(['PORT', 'ADMIN_PORT'])('%s in use ends it with one line', async (name) => {
    const port = await takenPort()
    const program = start('gateway', { [name]: String(port), LOG_LEVEL: 'silent' })
    expect(await program.ended()).toBe(1)
    expect(program.stderr).toBe(
      `${name}: expected a port to listen on, got ${port} on 127.0.0.1: it is in use\n`,
    )
  })

  test('UPSTREAMS with ids and weights, HASH_KEY, BALANCE_FACTOR and LOAD_FLOOR arrive', async () => {
    const a = await startUpstream('a')
    const b = await startUpstream('b')
    const { url, adminUrl, program } = await startGatewayProgram({
      UPSTREAMS: `a=${a.url}*2, ${b.url}`,
      HASH_KEY: 'query:user',
      BALANCE_FACTOR: '3',
      LOAD_FLOOR: '0',
    })
    expect(program.stdout).toContain(`curl -i '${url}/?user=alice'`)
    await eventually('the topology', async () => (await fetch(`${adminUrl}/readyz`)).ok)
    expect(await (await fetch(`${adminUrl}/status`)).json()).toMatchObject({
      upstreams: [
        // ceil(3 × (0 + 1) × 2 / 3) and ceil(3 × (0 + 1) × 1 / 3)
        { id: `127.0.0.1:${b.port}`, weight: 1, capacity: 1 },
        { id: 'a', weight: 2, capacity: 2 },
      ],
    })
    const ids = await Promise.all(
      Array.from({ length: 20 }, async () =>
        (await fetch(`${url}/?user=alice`)).headers.get('x-upstream-id'),
      ),
    )
    expect(a.count + b.count).toBe(ids.length)
  })

  test('an unreachable etcd is one line; the gateway runs, is not ready and says why', async () => {
    const { program, url, adminUrl } = await startGatewayProgram({ ETCD_HOSTS: 'http://127.0.0.1:1' })
    const reason = 'etcd at http://127.0.0.1:1 cannot be reached (connect ECONNREFUSED 127.0.0.1:1)'
    await program.prints(/Not ready/)
    expect(program.stdout.match(/^Not ready.*$/gm)).toEqual([
      `Not ready: ${reason}; still trying, /readyz tells when it is`,
    ])
    const readyz = await fetch(`${adminUrl}/readyz`)
    expect(readyz.status).toBe(503)
    expect(await readyz.json()).toEqual({ ready: false, reason: `there is no topology yet: ${reason}` })
    expect((await fetch(`${adminUrl}/healthz`)).status).toBe(200)
    expect((await fetch(url)).status).toBe(503)
    expect(await (await fetch(`${adminUrl}/metrics`)).text()).toMatch(/^consistent_hash_proxy_source_up 0$/m)
    expect(await program.stop()).toBe(0)
  })
})
