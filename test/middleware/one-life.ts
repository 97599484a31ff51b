// A process that lives only as long as its proxy does: run by close.test.ts, says what it did.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  consistentHashProxy,
  fileTopology,
  HashRing,
  staticTopology,
  type TopologySource,
} from '../../src/index.ts'

async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function serveOne(makeTopology: (url: string) => TopologySource): Promise<void> {
  const upstream = createServer((_request, response) => response.end('served'))
  const url = await listen(upstream)
  const proxy = consistentHashProxy({
    key: 'path',
    topology: makeTopology(url),
    healthCheck: { intervalMs: 20 },
  })
  const gateway = createServer(proxy)
  const gatewayUrl = await listen(gateway)
  await proxy.ready()
  console.log(await (await fetch(gatewayUrl)).text())
  await proxy.metrics?.metrics()
  await proxy.close()
  gateway.close()
  gateway.closeIdleConnections()
  upstream.close()
  upstream.closeIdleConnections()
}

const folder = mkdtempSync(join(tmpdir(), 'one-life-'))
const path = join(folder, 'topology.json')
await serveOne((url) => staticTopology([{ id: 'a', url }]))
await serveOne((url) => {
  writeFileSync(path, JSON.stringify([{ id: 'b', url }]))
  return fileTopology({ path })
})
rmSync(folder, { recursive: true })
console.log(new HashRing([{ id: 'c', weight: 1 }]).owner('key'))
