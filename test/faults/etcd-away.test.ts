import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'vitest'
import { startCluster } from './cluster-stage.ts'
import { fault, scaled, sleep } from './fault.ts'

fault('SIGKILL of etcd, changes made at its return', async (stage) => {
  const cluster = await startCluster(stage)
  await cluster.etcd.kill()
  await cluster.away()
  await sleep(scaled(2_000, 60_000))
  expect(cluster.ids()).toEqual(['a', 'b', 'c'])
  await cluster.etcd.start()
  await cluster.leave('b')
  await cluster.register('d')
  await cluster.converges('a', 'c', 'd')
  await cluster.end()
})

fault('SIGSTOP of etcd, then SIGCONT', async (stage) => {
  const cluster = await startCluster(stage)
  await cluster.etcd.kill('SIGSTOP')
  await cluster.away()
  await sleep(scaled(1_000, 30_000))
  expect(cluster.ids()).toEqual(['a', 'b', 'c'])
  await cluster.etcd.kill('SIGCONT')
  await cluster.leave('b')
  await cluster.register('d')
  await cluster.converges('a', 'c', 'd')
  await cluster.end()
})

fault('half-open connection to etcd', async (stage) => {
  const cluster = await startCluster(stage)
  cluster.relay.stall()
  await cluster.leave('b')
  await cluster.register('d')
  await cluster.away()
  await sleep(scaled(500, 30_000))
  expect(cluster.ids()).toEqual(['a', 'b', 'c'])
  cluster.relay.resume()
  await cluster.converges('a', 'c', 'd')
  await cluster.end()
})

fault('bytes from and to etcd vanish', async (stage) => {
  const cluster = await startCluster(stage)
  cluster.relay.swallows = true
  await cluster.leave('b')
  await cluster.register('d')
  await cluster.away()
  cluster.relay.swallows = false
  await cluster.converges('a', 'c', 'd')
  await cluster.end()
})

fault('connections to etcd cut every 2 s', async (stage) => {
  const cluster = await startCluster(stage)
  cluster.relay.resetEvery(scaled(500, 2_000))
  const end = performance.now() + scaled(3_000, 60_000)
  while (performance.now() < end) {
    await cluster.leave('b')
    await cluster.register('d')
    await cluster.converges('a', 'c', 'd')
    await cluster.leave('d')
    await cluster.register('b')
    await cluster.converges('a', 'b', 'c')
  }
  cluster.relay.resetEvery(0)
  await cluster.end()
})

fault('compaction past the watched revision', async (stage) => {
  const cluster = await startCluster(stage)
  cluster.relay.refuse()
  cluster.relay.reset()
  await cluster.away()
  await cluster.leave('b')
  await cluster.register('d')
  await cluster.etcd.compact()
  const connections = cluster.relay.connections
  await cluster.relay.accept()
  await cluster.converges('a', 'c', 'd')
  // What stays keeps its state, and what left was told from its absence.
  expect(cluster.changes).toEqual([{ added: ['d'], removed: ['b'], changed: [] }])
  expect(cluster.relay.connections - connections).toBeLessThan(10)
  await cluster.end()
})

fault('etcd restored from an older snapshot', async (stage) => {
  const folder = mkdtempSync(join(tmpdir(), 'etcd-restored-'))
  stage.defer(() => rmSync(folder, { recursive: true, force: true }))
  const data = join(folder, 'data')
  const snapshot = join(folder, 'snapshot')
  // The last flag of a name counts: this etcd's data is ours to copy.
  const cluster = await startCluster(stage, { flags: ['--data-dir', data] })
  await cluster.etcd.kill()
  cpSync(data, snapshot, { recursive: true })
  await cluster.etcd.start()
  await cluster.register('d')
  await cluster.leave('b')
  await cluster.leave('c')
  await cluster.converges('a', 'd')
  const revision = BigInt(cluster.proxy.status().revision ?? 0)

  await cluster.etcd.kill()
  rmSync(data, { recursive: true })
  cpSync(snapshot, data, { recursive: true })
  await cluster.etcd.start()
  await cluster.converges('a', 'b', 'c')
  expect(cluster.proxy.status().epoch).toBe(1)
  expect(BigInt(cluster.proxy.status().revision ?? 0)).toBeLessThan(revision)
  await cluster.register('d')
  await cluster.converges('a', 'b', 'c', 'd')
  await cluster.end()
})
