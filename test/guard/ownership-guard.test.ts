import { createServer, type Server } from 'node:http'
import express from 'express'
import request from 'supertest'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ClosedError, OptionsError, RefusedEntryError } from '../../src/errors.ts'
import { type OwnershipGuard, ownershipGuard } from '../../src/guard/ownership-guard.ts'
import type { Logger } from '../../src/logger.ts'
import { HashRing } from '../../src/ring/hash-ring.ts'
import {
  decodeTopologyStamp,
  encodeKeyHash,
  encodeRingOwner,
  encodeTopologyStamp,
} from '../../src/topology-headers.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { SettableSource } from './settable-source.ts'

const upstreams = (...ids: string[]) => ids.map((id) => ({ id }))

function keyOwnedBy(owner: string, ring: HashRing): string {
  for (let index = 0; index < 1_000; index++) if (ring.owner(`key-${index}`) === owner) return `key-${index}`
  throw new Error(`expected a key of ${owner} among 1,000`)
}

/** What a gateway sends for a key by its ring at a revision. */
function sent(
  ring: HashRing,
  revision: bigint,
  key: string,
  more: { id?: string; epoch?: number; owner?: string } = {},
) {
  const { id = 'shop', epoch = 0, owner = ring.owner(key) ?? '' } = more
  return {
    'x-topology': encodeTopologyStamp({ id, epoch, revision, digest: ring.digest }),
    'x-ring-owner': encodeRingOwner(owner),
    'x-key-hash': encodeKeyHash(ring.position(key)),
    'x-attempt': '1',
  }
}

describe('ownershipGuard', () => {
  const old = new HashRing(['A', 'B'])
  const now = new HashRing(['A', 'B', 'C'])
  /** A's key by the old ring and C's by the new one. */
  const moved = (() => {
    for (let index = 0; ; index++) {
      if (old.owner(`key-${index}`) === 'A' && now.owner(`key-${index}`) === 'C') return `key-${index}`
    }
  })()
  let source: SettableSource
  let clock: ManualClock
  let guard: OwnershipGuard
  let server: Server
  let executed: number
  let logged: string[]

  const log = (level: string) => (_: object, message: string) => logged.push(`${level}: ${message}`)
  const logger: Logger = { debug: log('debug'), info: log('info'), warn: log('warn'), error: log('error') }

  async function start(id: string, ring = {}): Promise<void> {
    guard = ownershipGuard({ id, topology: source, ring, clock, logger })
    server = createServer((req, res) => {
      guard(req, res, () => {
        executed++
        res.end(id)
      })
    })
    await new Promise((resolve) => setImmediate(resolve))
  }
  const get = (headers: Record<string, string> = {}) => request(server).get('/').set(headers)

  beforeEach(() => {
    source = new SettableSource()
    clock = new ManualClock()
    executed = 0
    logged = []
  })
  afterEach(async () => {
    await guard?.close()
    server?.close()
  })

  async function startedAt(id: string, revision: bigint, ...ids: string[]): Promise<void> {
    await start(id)
    source.set(revision, upstreams(...ids))
    await guard.ready()
  }

  it('refuses what an older ring sent here: 421, its own x-topology, a short text, nothing executed', async () => {
    await startedAt('A', 8n, 'A', 'B', 'C')
    const answer = await get(sent(old, 7n, moved))
    expect(answer.status).toBe(421)
    expect(answer.headers['content-type']).toBe('text/plain; charset=utf-8')
    expect(answer.text.length).toBeLessThan(100)
    expect(answer.headers['x-topology']).toBe(`id=shop;epoch=0;revision=8;digest=${now.digest}`)
    expect(executed).toBe(0)
  })

  it('refuses a POST and a HEAD alike', async () => {
    await startedAt('A', 8n, 'A', 'B', 'C')
    expect(
      (
        await request(server)
          .post('/')
          .set(sent(old, 7n, moved))
          .send('x'.repeat(100_000))
      ).status,
    ).toBe(421)
    expect(
      (
        await request(server)
          .head('/')
          .set(sent(old, 7n, moved))
      ).status,
    ).toBe(421)
    expect(executed).toBe(0)
  })

  it('works in Express', async () => {
    await startedAt('A', 8n, 'A', 'B', 'C')
    const app = express()
      .use(guard)
      .get('/', (_, res) => {
        res.send('served')
      })
    expect(
      (
        await request(app)
          .get('/')
          .set(sent(old, 7n, moved))
      ).status,
    ).toBe(421)
    expect(
      (
        await request(app)
          .get('/')
          .set(sent(now, 8n, moved))
      ).text,
    ).toBe('served')
  })

  describe('serves, and stamps the answer,', () => {
    beforeEach(() => startedAt('A', 8n, 'A', 'B', 'C'))
    const staysOnB = keyOwnedBy('B', now)
    const without = (name: keyof ReturnType<typeof sent>, value?: string) => {
      const { [name]: _, ...others }: Record<string, string> = sent(old, 7n, moved)
      return value === undefined ? others : { ...others, [name]: value }
    }
    it.each([
      ['no headers', {}],
      ['the same revision, whatever the owner', sent(old, 8n, moved)],
      [
        'the key’s right owner is another: overflow, retry or slow start of a gateway with an older revision',
        sent(old, 7n, staysOnB),
      ],
      ['a newer ring that names another owner: a read at the previous owner', sent(now, 8n, moved)],
      [
        'an older revision whose key is this upstream’s own',
        sent(old, 7n, keyOwnedBy('A', now), { owner: 'B' }),
      ],
      ['another topology', sent(old, 7n, moved, { id: 'other' })],
      ['another epoch', sent(old, 7n, moved, { epoch: 1 })],
      ['no x-topology', without('x-topology')],
      ['a malformed x-topology', without('x-topology', 'id=shop;epoch=0;revision=x')],
      ['no x-key-hash', without('x-key-hash')],
      ['a malformed x-key-hash', without('x-key-hash', '12')],
      ['no x-ring-owner', without('x-ring-owner')],
      ['a malformed x-ring-owner', without('x-ring-owner', '%')],
    ])('%s', async (_, headers) => {
      const answer = await get(headers)
      expect([answer.status, answer.text, executed]).toEqual([200, 'A', 1])
      expect(decodeTopologyStamp(answer.headers['x-topology'])).toEqual({
        id: 'shop',
        epoch: 0,
        revision: 8n,
        digest: now.digest,
      })
      expect(source.refreshes).toBe(0)
    })
  })

  it('builds the ring of active upstreams only', async () => {
    await start('A')
    source.set(8n, [{ id: 'A' }, { id: 'B' }, { id: 'C', state: 'draining' }, { id: 'D', state: 'warming' }])
    const answer = await get(sent(old, 7n, moved))
    expect(answer.status).toBe(200)
    expect(decodeTopologyStamp(answer.headers['x-topology'])?.digest).toBe(old.digest)
    source.set(9n, upstreams('A', 'B', 'C'))
    expect((await get(sent(old, 7n, moved))).status).toBe(421)
  })

  it('uses the ring settings and the weights it is given', async () => {
    await start('A', { virtualNodes: 10, seed: 99n })
    source.set(8n, [{ id: 'A' }, { id: 'B', weight: 3 }])
    const digest = new HashRing(['A', { id: 'B', weight: 3 }], { virtualNodes: 10, seed: 99n }).digest
    expect(decodeTopologyStamp((await get()).headers['x-topology'])?.digest).toBe(digest)
  })

  it('serves when no upstream is active', async () => {
    await start('A')
    source.set(8n, [{ id: 'A', state: 'draining' }])
    expect((await get(sent(old, 7n, moved))).status).toBe(200)
  })

  it('serves without a topology, and without a stamp', async () => {
    await start('A')
    const answer = await get(sent(old, 7n, moved))
    expect(answer.status).toBe(200)
    expect(answer.headers).not.toHaveProperty('x-topology')
  })

  it('serves and reads again when the gateway is ahead: one read at a time, at most one a second', async () => {
    await startedAt('A', 7n, 'A', 'B')
    let finish = () => {}
    source.onRefresh = () =>
      new Promise((resolve) => {
        finish = () => {
          source.set(8n, upstreams('A', 'B', 'C'))
          resolve()
        }
      })
    const ahead = sent(now, 9n, moved)
    for (let count = 0; count < 5; count++) expect((await get(ahead)).text).toBe('A')
    expect(source.refreshes).toBe(1)
    clock.advance(5_000)
    await get(ahead)
    expect(source.refreshes).toBe(1)
    finish()
    expect(decodeTopologyStamp((await get(ahead)).headers['x-topology'])?.revision).toBe(8n)
    expect(source.refreshes).toBe(2)
    finish()
    clock.advance(999)
    await get(ahead)
    expect(source.refreshes).toBe(2)
    clock.advance(1)
    await get(ahead)
    expect(source.refreshes).toBe(3)
  })

  it('swallows the errors of reading again, and tries again a second later', async () => {
    await startedAt('A', 7n, 'A', 'B')
    source.onRefresh = () => Promise.reject(new Error('away'))
    const ahead = sent(now, 9n, moved)
    expect((await get(ahead)).status).toBe(200)
    expect(logged).toEqual(['debug: ownership guard: the topology could not be read again'])
    clock.advance(1_000)
    source.onRefresh = () => {
      throw new Error('away at once')
    }
    expect((await get(ahead)).status).toBe(200)
    expect([source.refreshes, logged.length]).toEqual([2, 2])
  })

  it('keeps its last ring when a topology makes none', async () => {
    await startedAt('A', 8n, 'A', 'B', 'C')
    source.set(9n, [{ id: 'A', weight: 1_000 }])
    expect(logged).toEqual(['error: ownership guard: the topology makes no ring'])
    expect(decodeTopologyStamp((await get()).headers['x-topology'])?.revision).toBe(8n)
  })

  it('logs what the source refuses and how it fares', async () => {
    await startedAt('A', 8n, 'A')
    source.refuse('upstreams/x', new RefusedEntryError('weight', 'too heavy'))
    expect(logged).toEqual([
      'warn: ownership guard: entry refused',
      'info: ownership guard: the state of the topology source',
    ])
  })

  it('is ready with the first topology; after close the feed is closed, and everything is served', async () => {
    await start('A')
    let ready = false
    const waiting = guard.ready().then(() => {
      ready = true
    })
    await get()
    expect(ready).toBe(false)
    source.set(8n, upstreams('A', 'B', 'C'))
    await waiting
    await guard.close()
    await guard.close()
    expect(source.closes).toBeGreaterThan(0)
    source.set(9n, upstreams('B'))
    const answer = await get(sent(old, 7n, moved))
    expect([answer.status, answer.headers['x-topology']]).toEqual([200, undefined])
    await expect(guard.ready()).resolves.toBeUndefined()
  })

  it('rejects those who wait when it is closed before, and opens nothing then', async () => {
    guard = ownershipGuard({ id: 'A', topology: source })
    const waiting = guard.ready()
    await guard.close()
    await expect(waiting).rejects.toThrow(ClosedError)
    expect(source.closes).toBe(0)
  })

  it('serves when the source cannot be opened, and says so', async () => {
    source.open = () => {
      throw new Error('no such file')
    }
    await start('A')
    await expect(guard.ready()).rejects.toThrow('no such file')
    expect((await get(sent(old, 7n, moved))).status).toBe(200)
    expect(logged).toEqual([
      'error: ownership guard: the topology source cannot be opened, everything is served',
    ])
  })

  it('refuses options that cannot be meant', () => {
    expect(() => ownershipGuard({ id: '', topology: source })).toThrow(/`id`.*non-empty/)
    expect(() => ownershipGuard(JSON.parse('{"id":"A","topology":"etcd"}'))).toThrow(
      /`topology`.*topology source.*`etcd`/,
    )
    expect(() => ownershipGuard({ id: 'A', topology: source, ring: { virtualNodes: 0 } })).toThrow(
      OptionsError,
    )
    for (const text of ['{"id":"A","logr":{}}', '{"id":"A","ring":{"virtualnodes":500}}']) {
      const options = { topology: source, ...JSON.parse(text) }
      expect(() => ownershipGuard(options)).toThrow(
        /exists, got `(logr|virtualnodes)`.*`(logger|virtualNodes)`/,
      )
    }
    expect(() => Reflect.apply(ownershipGuard, undefined, [])).toThrow(OptionsError)
  })
})
