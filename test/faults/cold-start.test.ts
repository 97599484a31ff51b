import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'vitest'
import type { Logger } from '../../src/index.ts'
import { eventually } from '../support/servers.ts'
import { etcdSource, fault, prefix, type Stage, scaled, sleep } from './fault.ts'

/** A dead etcd, three upstreams that were registered in it, and the disk snapshot of a gateway that has known them. */
async function startAfterwards(stage: Stage) {
  const folder = mkdtempSync(join(tmpdir(), 'snapshot-'))
  stage.defer(() => rmSync(folder, { recursive: true, force: true }))
  const path = join(folder, 'topology.json')
  const [upstreams, etcd] = await Promise.all([stage.upstreams('a', 'b', 'c'), stage.etcd()])
  for (const { id, url } of upstreams) await etcd.put(`${prefix}upstreams/${id}`, { url })
  const earlier = await stage.gateway({ topology: etcdSource(etcd.endpoint, { snapshotFile: path }) })
  await earlier.proxy.ready()
  await earlier.proxy.close()
  await etcd.kill()
  const warnings: string[] = []
  const warn = (_fields: object, message: string) => warnings.push(message)
  const nothing = () => {}
  const logger: Logger = { debug: nothing, info: nothing, warn, error: warn }
  const start = (options: { prefix?: string; snapshotFile?: string }) =>
    stage.gateway({ topology: etcdSource(etcd.endpoint, options), logger })
  return { upstreams, etcd, path, warnings, start }
}

fault('a gateway starts while etcd is away, with a disk snapshot', async (stage) => {
  const { upstreams, etcd, path, start } = await startAfterwards(stage)
  const started = performance.now()
  const { proxy, port } = await start({ snapshotFile: path })
  await proxy.ready()
  console.log(`ready by the snapshot after ${Math.round(performance.now() - started)} ms`)
  const traffic = stage.traffic({ ports: [port], perSecond: scaled(100, 1_000) })
  await sleep(scaled(1_000, 10_000))
  expect(proxy.status().source.state).not.toBe('live')
  await etcd.start()
  const back = performance.now()
  await eventually('a live watch', () => proxy.status().source.state === 'live', 20_000)
  stage.converged(back)
  await etcd.delete(`${prefix}upstreams/c`)
  await eventually('the change', () => proxy.status().upstreams.length === 2)
  const account = stage.take(await traffic.stop(upstreams))
  expect([...account.failed, ...account.unsafeFailed, ...account.lost]).toEqual([])
})

/** How the snapshot is damaged, and what is logged of it. */
const damages: readonly [string, (bytes: Buffer) => Buffer | undefined, RegExp][] = [
  ['without a disk snapshot', () => undefined, /ENOENT/],
  ['with a truncated disk snapshot', (bytes) => bytes.subarray(0, bytes.length / 2), /snapshot/],
  ['with a bit-flipped disk snapshot', flipBit, /snapshot/],
  ['with a disk snapshot from another prefix', fromElsewhere, /expected a snapshot of/],
]

function flipBit(bytes: Buffer): Buffer {
  const middle = bytes.length >> 1
  return bytes.fill((bytes[middle] ?? 0) ^ 1, middle, middle + 1)
}

function fromElsewhere(bytes: Buffer): Buffer {
  return bytes
}

for (const [name, damage, reason] of damages) {
  fault(`a gateway starts while etcd is away, ${name}`, async (stage) => {
    const { etcd, path, warnings, start } = await startAfterwards(stage)
    const damaged = damage(readFileSync(path))
    if (damaged === undefined) rmSync(path)
    else writeFileSync(path, damaged)
    const isElsewhere = damage === fromElsewhere
    const { proxy, port } = await start({
      snapshotFile: path,
      ...(isElsewhere && { prefix: '/consistent-hash-proxy/elsewhere/' }),
    })
    await eventually('the reason', () => 'error' in proxy.status().source)
    const { status, headers } = await fetch(`http://127.0.0.1:${port}/`)
    expect(status).toBe(503)
    expect(headers.get('retry-after')).toBe('1')
    expect(proxy.status()).toMatchObject({ revision: null, upstreams: [] })
    expect(proxy.status().source).toMatchObject({ error: expect.stringContaining(etcd.endpoint) })
    expect(warnings).toContainEqual(expect.stringMatching(reason))
    await etcd.start()
    const back = performance.now()
    const count = isElsewhere ? 0 : 3
    await eventually('the topology', () => {
      const { revision, upstreams } = proxy.status()
      return revision !== null && upstreams.length === count
    })
    stage.converged(back)
  })
}
