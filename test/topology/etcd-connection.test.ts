import { describe, expect, it } from 'vitest'
import { OptionsError } from '../../src/errors.ts'
import { parseConnection } from '../../src/topology/etcd/connection.ts'
import { etcdTopology } from '../../src/topology/etcd/etcd-topology.ts'
import { SessionLoop } from '../../src/topology/etcd/session-loop.ts'
import { ManualClock } from '../support/manual-clock.ts'

const minimal = { hosts: 'http://h:1', prefix: '/p' }

describe('parseConnection', () => {
  it('fills the defaults', () => {
    expect(parseConnection({ hosts: ['http://h/', 'http://[::1]:1'], prefix: '/p' })).toEqual({
      hosts: ['http://h:2379', 'http://[::1]:1'],
      prefix: '/p/',
      secure: false,
      auth: undefined,
      tls: {},
      requestTimeoutMs: 2000,
      connectTimeoutMs: 2000,
    })
  })

  it.each<[object, string]>([
    [{ hosts: undefined }, 'hosts: expected at least one etcd host, got undefined'],
    [{ hosts: 'h:2379' }, 'hosts: expected "http://host:port" or "https://host:port", got "h:2379"'],
    [
      { hosts: ['http://h', 'https://h'] },
      'hosts: expected all of one scheme, got "http://h:2379" and "https://h:2379"',
    ],
    [
      { hosts: 'http://me:secret@h' },
      'hosts: expected "http://host:port" or "https://host:port", got "http://…@h"',
    ],
    [{ prefix: '' }, 'prefix: expected a key prefix such as "/consistent-hash-proxy/shop/", got ""'],
    [{ prefix: '/' }, 'prefix: expected a key prefix such as "/consistent-hash-proxy/shop/", got "/"'],
    [
      { auth: { username: 'u', password: '' } },
      'auth: expected a user name and a password, got none or an empty one',
    ],
    [{ tls: {} }, 'hosts: expected https:// with the option tls, got "http://h:1"'],
    [{ hosts: 'https://h', tls: { cert: 'x' } }, 'tls: expected cert and key together, got only cert'],
    [{ hosts: 'https://h', tls: { ca: 'x' } }, 'tls: expected PEM contents in ca, cert and key, got '],
    [{ requestTimeoutMs: 0 }, 'requestTimeoutMs: expected 1 to 2147483647 milliseconds, got 0'],
    [{ connectTimeoutMs: Number.NaN }, 'connectTimeoutMs: expected 1 to 2147483647 milliseconds, got NaN'],
  ])('refuses %j', (options, message) => {
    expect(() => parseConnection({ ...minimal, ...options })).toThrow(OptionsError)
    expect(() => parseConnection({ ...minimal, ...options })).toThrow(message)
  })

  it('is asked by etcdTopology, which has options of its own', () => {
    expect(() => etcdTopology({ ...minimal, hosts: [] })).toThrow(OptionsError)
    expect(() => etcdTopology({ ...minimal, decode: 'json' as never })).toThrow('decode: expected a function')
    expect(() => etcdTopology({ ...minimal, reconcileIntervalMs: 0 })).toThrow(
      'reconcileIntervalMs: expected 1 to',
    )
    expect(() => etcdTopology({ ...minimal, allowedHosts: ['*'] })).toThrow('allowedHosts[0]')
  })
})

describe('SessionLoop', () => {
  const flush = () => new Promise((resolve) => setImmediate(resolve))

  async function run(lives: readonly number[], hosts: [string, ...string[]] = ['a', 'b', 'c']) {
    // The longest pauses: the jitter only shortens.
    const clock = new ManualClock(() => 1 - Number.EPSILON)
    const tried: string[] = []
    const failures: string[] = []
    const loop = new SessionLoop({
      connection: { ...parseConnection(minimal), hosts },
      clock,
      session: async (host) => {
        tried.push(host)
        return { reason: new Error('fell'), upMs: lives[tried.length - 1] ?? 0 }
      },
      onFailure: (message) => failures.push(message),
    })
    for (let index = 0; index < lives.length; index += 1) {
      await flush()
      clock.advance(3000)
    }
    await loop.close()
    expect(clock.pendingTimers).toBe(0)
    return { tried, failures }
  }

  it('goes round the hosts, and names all that failed', async () => {
    const { tried, failures } = await run([0, 0, 0, 0])
    expect(tried).toEqual(['a', 'b', 'c', 'a'])
    expect(failures.slice(0, 3)).toEqual([
      'etcd at a fell',
      'etcd at a fell; etcd at b fell',
      'etcd at a fell; etcd at b fell; etcd at c fell',
    ])
  })

  it('returns to the host that was good, and forgets old troubles', async () => {
    const { tried, failures } = await run([0, 50, 0, 0])
    expect(tried).toEqual(['a', 'b', 'b', 'c'])
    expect(failures[1]).toBe('etcd at b fell')
  })

  it('rests longer and longer, up to 3 s, and shortly again once a session has lasted', async () => {
    const clock = new ManualClock(() => 1 - Number.EPSILON)
    const starts: number[] = []
    const lives = [0, 3000, 0, 0, 0, 0, 3001, 0]
    const loop = new SessionLoop({
      connection: parseConnection(minimal),
      clock,
      session: async () => {
        starts.push(clock.now())
        return { reason: new Error('fell'), upMs: lives[starts.length - 1] ?? 0 }
      },
      onFailure: () => {},
    })
    while (starts.length < 9) {
      await flush()
      clock.advance(1)
    }
    await loop.close()
    const rests = starts.slice(1).map((start, index) => start - (starts[index] ?? 0))
    expect(rests).toEqual([100, 200, 400, 800, 1600, 3000, 100, 200])
  })
})
