import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { etcdTopology } from '../../src/topology/etcd/etcd-topology.ts'
import { type EtcdProcess, startEtcd } from '../support/etcd.ts'
import { Followed } from './follow.ts'

const prefix = '/snapshot/'
let etcd: EtcdProcess
let folder: string
let snapshotFile: string
const opened: Followed[] = []

beforeAll(async () => {
  etcd = await startEtcd()
})
afterAll(() => etcd.stop())
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'snapshot-test-'))
  snapshotFile = join(folder, 'topology')
})
afterEach(async () => {
  await Promise.all(opened.splice(0).map(({ feed }) => feed.close()))
  rmSync(folder, { recursive: true, force: true })
  await etcd.restart()
  await etcd.client.delete().all()
})

function open(options = {}): Followed {
  const gateway = new Followed(etcdTopology({ hosts: etcd.endpoint, prefix, snapshotFile, ...options }))
  opened.push(gateway)
  return gateway
}
const register = (name: string, value: string | object) => etcd.put(`${prefix}upstreams/${name}`, value)

/** A snapshot of u1 and u2 on disk, and etcd gone. */
async function snapshotOfTwo(): Promise<void> {
  await register('u1', { url: 'http://10.0.0.1', weight: 2 })
  await register('u2', 'http://10.0.0.2')
  await etcd.put(`${prefix}overrides/u2`, { weight: 3 })
  const first = open()
  await first.untilIds('u1', 'u2')
  await register('u1', 'nonsense')
  await first.until(() => first.latest.degraded)
  await first.feed.close()
  await etcd.kill()
}

describe('a gateway that starts while etcd is away', () => {
  it('serves what is on disk, the last good values of it, says so, and swaps when etcd is back', async () => {
    await snapshotOfTwo()
    const gateway = open()
    await gateway.untilIds('u1', 'u2')
    expect(gateway.latest).toMatchObject({ degraded: true, epoch: 0 })
    expect(gateway.upstream('u1')?.weight).toBe(2)
    expect(gateway.upstream('u2')?.weight).toBe(3)
    await gateway.until(() => gateway.statuses.length > 0)
    const { status } = gateway.feed
    expect(status).toEqual({
      state: 'connecting',
      error: expect.stringContaining('cannot be reached'),
      diskCopy: { path: snapshotFile, ageMs: expect.any(Number) },
    })
    if (status.state === 'connecting') expect(status.diskCopy?.ageMs).toBeLessThan(10_000)
    await expect(gateway.feed.refresh()).rejects.toThrow('connecting')

    await etcd.start()
    await gateway.untilLive()
    await gateway.until(() => gateway.topologies.length === 2)
    expect(gateway.feed.status).toEqual({ state: 'live' })
    expect(gateway.latest).toMatchObject({ epoch: 0, degraded: true })
    await register('u1', 'http://10.0.0.9')
    await gateway.until(() => !gateway.latest.degraded)
    expect(gateway.ids).toEqual(['u1', 'u2'])
  })

  it('swaps though nothing changed: no longer degraded', async () => {
    await register('u1', 'http://10.0.0.1')
    const first = open()
    await first.untilIds('u1')
    await first.feed.close()
    await etcd.kill()
    const gateway = open()
    await gateway.untilIds('u1')
    expect(gateway.latest.degraded).toBe(true)
    await etcd.start()
    await gateway.until(() => !gateway.latest.degraded)
    expect(gateway.topologies).toHaveLength(2)
  })

  it('begins a new epoch when etcd comes back wiped, and doubts that all is gone', async () => {
    await snapshotOfTwo()
    const gateway = open({ gracePeriodMs: 300 })
    await gateway.untilIds('u1', 'u2')
    const { revision } = gateway.latest
    await etcd.restart({ wipe: true })
    await gateway.until(() => gateway.latest.epoch === 1)
    expect(gateway.latest).toMatchObject({ held: ['u1', 'u2'], degraded: true })
    expect(gateway.latest.revision).toBeLessThan(revision)
    await register('u1', 'http://10.0.0.1')
    await gateway.untilIds('u1')
    await gateway.feed.close()
    // A gateway of today knows that epoch, and reads no further than etcd is.
    const next = open()
    await next.untilIds('u1')
    expect(next.latest.epoch).toBe(1)
  })

  it('reads the raw values by the rules of today', async () => {
    await snapshotOfTwo()
    const gateway = open({ allowedHosts: ['10.0.0.2'] })
    await gateway.untilIds('u2')
    expect(gateway.refused.map(([entry, { reason }]) => [entry, reason])).toEqual([
      [`${prefix}upstreams/u1`, 'host'],
    ])
  })

  it.each<[string, (text: string) => string, object, RegExp]>([
    ['none', () => '', {}, /expected a file that begins/],
    ['a truncated one', (text) => text.slice(0, -20), {}, /cut short or damaged/],
    ['a damaged one', (text) => text.replace('upstreams/u1', 'upstreams/u3'), {}, /cut short or damaged/],
    ['one of another prefix', (text) => text, { prefix: '/other/' }, /expected a snapshot of "\/other\/"/],
    ['an old one', (text) => text, { snapshotFile: { maxAgeMs: 1 } }, /expected one of at most 1 ms/],
  ])('has no topology by %s, and says why', async (_name, change, options, reason) => {
    await snapshotOfTwo()
    writeFileSync(snapshotFile, change(await readFile(snapshotFile, 'utf8')))
    const gateway = open({
      ...options,
      snapshotFile: { path: snapshotFile, ...('snapshotFile' in options && { maxAgeMs: 1 }) },
    })
    await gateway.until(() => gateway.statuses.length > 0)
    expect(gateway.feed.status).toEqual({ state: 'connecting', error: expect.stringMatching(reason) })
    expect(gateway.topologies).toEqual([])
  })
})

it('is not served where etcd answers, and a set that is held or empty is not kept', async () => {
  await register('u1', 'http://10.0.0.1')
  const first = open()
  await first.untilIds('u1')
  await etcd.delete(`${prefix}upstreams/u1`)
  await first.until(() => first.latest.held !== undefined)
  await first.feed.close()
  expect(await readFile(snapshotFile, 'utf8')).toContain('upstreams/u1')
  await register('u2', 'http://10.0.0.2')
  const gateway = open()
  await gateway.untilLive()
  expect(gateway.topologies.map(({ upstreams }) => upstreams.map(({ id }) => id))).toEqual([['u2']])
})
