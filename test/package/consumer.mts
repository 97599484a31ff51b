// What a user's program does, run by scripts/check-package.mjs against the packed library.

import assert from 'node:assert/strict'
import { createServer, type Server } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import {
  type ConsistentHashProxyOptions,
  consistentHashProxy,
  HashRing,
  key,
  staticTopology,
} from 'consistent-hash-proxy'

const ring = new HashRing(['a', 'b', 'c'].map((id) => ({ id, weight: 1 })))
assert.equal(
  ['1', '2', '3', '4', '5', '6', '7', '8'].map((key) => ring.owner(`user-${key}`)).join(''),
  'abbcaaac',
)

const upstream = createServer((_request, response) => response.end('hello'))
const options: ConsistentHashProxyOptions = {
  key: key.header('x-user-id'),
  topology: staticTopology([`a=${await listen(upstream)}`]),
  exposeUpstreamId: true,
}
const proxy = consistentHashProxy(options)
const gateway = createServer(proxy)
const answer = await fetch(await listen(gateway), { headers: { 'x-user-id': '7' } })
assert.equal(answer.headers.get('x-upstream-id'), 'a')
assert.equal(await answer.text(), 'hello')

// What is not used is not loaded.
const loaded = Object.keys(createRequire(import.meta.url).cache).filter((path) =>
  /node_modules\/(@grpc|etcd3|express)\//.test(path),
)
assert.deepEqual(loaded, [])

gateway.close()
upstream.close()
await proxy.close()
gateway.closeAllConnections()
upstream.closeAllConnections()

async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
