// A gateway in a process of its own. Argument: its `GatewaySettings` as JSON.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { consistentHashProxy, etcdTopology, staticTopology } from '../../src/index.ts'
import type { GatewayProgress, GatewayReport, GatewaySettings } from './gateway-process.ts'
import { LoopDelay } from './loop-delay.ts'

const { etcd, upstreams, ...options } = JSON.parse(process.argv[2] ?? '') as GatewaySettings
const topology = etcd ? etcdTopology(etcd) : staticTopology(upstreams ?? [])
const proxy = consistentHashProxy({ key: 'header:x-user-id', ...options, topology })
const server = createServer(proxy)
const delay = new LoopDelay()
const warnings: string[] = []
process.on('warning', ({ name, message }) => warnings.push(`${name}: ${message}`))
const countListeners = () =>
  [process, server].reduce(
    (sum, emitter) =>
      emitter.eventNames().reduce((inner, name) => inner + emitter.listenerCount(name as string), sum),
    0,
  )

const progress = { revision: '0', changes: 0, present: 0, refused: 0 }
proxy.on('topology', ({ revision, added, removed }) => {
  progress.revision = String(revision)
  progress.changes += 1
  progress.present += added.length - removed.length
})
proxy.on('refused', () => {
  progress.refused += 1
})

server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port))
process.on('disconnect', () => process.exit()) // whoever started this is gone

process.on('message', async (asked: 'measure' | 'progress' | 'report') => {
  if (asked === 'measure') delay.start()
  if (asked !== 'report') {
    process.send?.(progress satisfies GatewayProgress)
    return
  }
  const { p99Ms, maxMs } = delay.stop()
  globalThis.gc?.()
  const connections = await new Promise<number>((resolve) =>
    server.getConnections((_, count) => resolve(count)),
  )
  const report: GatewayReport = {
    status: proxy.status(),
    metrics: (await proxy.metrics?.metrics()) ?? '',
    delayP99Ms: p99Ms,
    delayMaxMs: maxMs,
    heapBytes: process.memoryUsage().heapUsed,
    handles: process.getActiveResourcesInfo().length,
    listeners: countListeners(),
    warnings,
    connections,
  }
  process.send?.(report)
})
