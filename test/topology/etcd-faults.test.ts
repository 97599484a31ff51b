import { execFileSync } from 'node:child_process'
import { createServer, type Server, type Socket } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { silentLogger } from '../../src/logger.ts'
import { etcdTopology } from '../../src/topology/etcd/etcd-topology.ts'
import type { Topology } from '../../src/topology/topology.ts'
import { type EtcdProcess, startEtcd } from '../support/etcd.ts'
import { Followed } from './follow.ts'

let etcd: EtcdProcess
let followed: Followed | undefined
const prefix = '/faults/'

beforeAll(async () => {
  etcd = await startEtcd()
})
afterAll(() => etcd.stop())
afterEach(async () => {
  await followed?.feed.close()
  await etcd.client.delete().all()
})

const open = (options = {}) => {
  followed = new Followed(etcdTopology({ hosts: etcd.endpoint, prefix, ...options }))
  return followed
}
const register = (name: string, value: string | object = 'http://10.0.0.1') =>
  etcd.put(`${prefix}upstreams/${name}`, value)

/** Calls etcd's JSON gateway and waits without letting this process do anything else. */
function callNow(path: string, body: Record<string, string | boolean>): void {
  const options = JSON.stringify({ method: 'POST', body: JSON.stringify(body) })
  const script = `fetch('${etcd.endpoint}/v3/kv/${path}', ${options}).then(r => { if (!r.ok) process.exit(1) })`
  execFileSync(process.execPath, ['-e', script])
}
const putNow = (name: string, value: string) =>
  callNow('put', { key: btoa(`${prefix}upstreams/${name}`), value: btoa(value) })

/** Opens a feed and does `work` in the very moment between its first snapshot and its watch. */
async function betweenSnapshotAndWatch(work: (snapshot: Topology) => void): Promise<Topology[]> {
  const topologies: Topology[] = []
  const feed = etcdTopology({ hosts: etcd.endpoint, prefix }).open(
    {
      onTopology(topology) {
        if (topologies.push(topology) === 1) work(topology)
      },
      onStatus() {},
      onRefused() {},
    },
    { clock: systemClock, logger: silentLogger },
  )
  await expect.poll(() => topologies.length, { timeout: 8000, interval: 20 }).toBe(2)
  await feed.close()
  return topologies
}

describe('between snapshot and watch', () => {
  it('misses no put (apache/apisix#13917, #9951)', async () => {
    await register('u1')
    const [first, second] = await betweenSnapshotAndWatch(() => putNow('u2', 'http://10.0.0.2'))
    expect(first?.upstreams).toHaveLength(1)
    expect(second?.upstreams.map(({ id }) => id)).toEqual(['u1', 'u2'])
    expect(second?.revision).toBe((first?.revision ?? 0n) + 1n)
  })

  it('reads again when the watch is refused, history being compacted (apache/apisix#2680, microsoft/etcd3#72)', async () => {
    await register('u1')
    const [, second] = await betweenSnapshotAndWatch(({ revision }) => {
      putNow('u2', 'http://10.0.0.2')
      putNow('u3', 'http://10.0.0.3')
      callNow('compaction', { revision: String(revision + 2n), physical: true })
    })
    expect(second?.upstreams.map(({ id }) => id)).toEqual(['u1', 'u2', 'u3'])
  })
})

describe('loss of etcd', () => {
  it('is away at the start, and found when it comes', async () => {
    await register('u1')
    await etcd.kill()
    const gateway = open()
    await gateway.until(() => gateway.statuses.length > 0)
    expect(gateway.feed.status).toMatchObject({
      state: 'connecting',
      error: expect.stringContaining(etcd.endpoint),
    })
    await etcd.restart()
    await gateway.untilIds('u1')
    await gateway.untilLive()
  })

  it('restarts, with a compaction and changes that no watch saw', async () => {
    await register('u1')
    await register('u2')
    const gateway = open()
    await gateway.untilIds('u1', 'u2')
    await gateway.untilLive()
    await etcd.kill()
    await gateway.until(() => gateway.feed.status.state === 'lost')
    expect(gateway.ids).toEqual(['u1', 'u2'])
    await etcd.start()
    await etcd.delete(`${prefix}upstreams/u2`)
    await register('u3')
    await etcd.compact()
    await gateway.untilIds('u1', 'u3')
    await gateway.untilLive()
    await register('u4')
    await gateway.untilIds('u1', 'u3', 'u4')
    expect(gateway.latest.epoch).toBe(0)
  })

  it('begins a new epoch when its revisions went back', async () => {
    for (let index = 0; index < 5; index += 1) await register('u1', `http://10.0.0.${index}`)
    const gateway = open()
    await gateway.untilIds('u1')
    await gateway.untilLive()
    const before = gateway.latest
    await etcd.restart({ wipe: true })
    await register('u2')
    await gateway.untilIds('u2')
    expect(gateway.latest.epoch).toBe(before.epoch + 1)
    expect(gateway.latest.revision).toBeLessThan(before.revision)
    expect(gateway.latest.id).toBe(before.id)
    await register('u3')
    await gateway.untilIds('u2', 'u3')
  })
})

describe('hosts', () => {
  it('passes by a dead and a silent one, and returns to the good one', async () => {
    const sockets = new Set<Socket>()
    const silent = createServer((socket) => sockets.add(socket.on('error', () => {})))
    await register('u1')
    const gateway = open({
      hosts: ['http://127.0.0.1:1', await listen(silent), etcd.endpoint],
      connectTimeoutMs: 500,
    })
    await gateway.untilIds('u1')
    await gateway.untilLive()
    expect(gateway.statuses.map((status) => ('error' in status ? status.error : status.state))).toEqual([
      expect.stringMatching(
        /^etcd at http:\/\/127\.0\.0\.1:1 cannot be reached \(connect ECONNREFUSED 127\.0\.0\.1:1\)$/,
      ),
      expect.stringMatching(/:1 cannot be reached.*; etcd at .* did not answer within 500 ms$/),
      'live',
    ])
    await etcd.restart()
    await register('u2')
    await gateway.untilIds('u1', 'u2')
    await gateway.untilLive()
    expect(gateway.statuses.at(-2)).toMatchObject({
      state: 'lost',
      error: expect.not.stringContaining(':1 '),
    })
    silent.close()
    for (const socket of sockets) socket.destroy()
  })
})

describe('close', () => {
  // What keeps this process alive, as the event loop counts it.
  const handles = () => process.getActiveResourcesInfo().filter((name) => /TCP|TLS|Timeout/.test(name)).length

  it('ends the watch and keeps no process alive', async () => {
    const before = handles()
    const gateway = open()
    await gateway.untilLive()
    expect(await watchers()).toBe(1)
    await gateway.feed.close()
    await gateway.feed.close()
    expect(gateway.statuses.map(({ state }) => state)).toEqual(['live', 'closed'])
    await expect.poll(watchers).toBe(0)
    await expect.poll(handles).toBeLessThanOrEqual(before)
    await register('u1')
    expect(gateway.topologies).toHaveLength(1)
  })

  it.each(['dead', 'silent'])('ends an attempt to reach a %s host', async (kind) => {
    const sockets = new Set<Socket>()
    const silent = createServer((socket) =>
      sockets.add(
        socket
          .on('error', () => {})
          .on('close', () => sockets.delete(socket))
          .resume(),
      ),
    )
    const silentHost = await listen(silent)
    const before = handles()
    const gateway = open({ hosts: kind === 'dead' ? 'http://127.0.0.1:1' : silentHost })
    await new Promise((resolve) => setTimeout(resolve, 500))
    expect(sockets.size).toBe(kind === 'dead' ? 0 : 1)
    await gateway.feed.close()
    await expect.poll(() => sockets.size, { timeout: 3000 }).toBe(0)
    await expect.poll(handles, { timeout: 3000 }).toBeLessThanOrEqual(before)
    silent.close()
  })

  async function watchers(): Promise<number> {
    const metrics = await (await fetch(`${etcd.endpoint}/metrics`)).text()
    return Number(/^etcd_debugging_mvcc_watcher_total (\d+)/m.exec(metrics)?.[1])
  }
})

async function listen(server: Server): Promise<string> {
  if (!server.listening) await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('expected a TCP address')
  return `http://127.0.0.1:${address.port}`
}
