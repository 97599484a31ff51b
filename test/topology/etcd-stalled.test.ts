import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { expect, it } from 'vitest'
import { etcdTopology } from '../../src/topology/etcd/etcd-topology.ts'
import { startEtcd } from '../support/etcd.ts'
import { Followed } from './follow.ts'

it('finds by its periodic read what a watch has swallowed, and drops that watch', async () => {
  const etcd = await startEtcd()
  // A relay whose connections can stop delivering, one by one. In order: the greeting, reads, the watch.
  const fromEtcd: Socket[] = []
  const relay = createServer((client) => {
    const server = connect(Number(new URL(etcd.endpoint).port), '127.0.0.1')
    fromEtcd.push(server)
    client.pipe(server).pipe(client)
    client.on('error', () => server.destroy()).on('close', () => server.destroy())
    server.on('error', () => client.destroy()).on('close', () => client.destroy())
  }).listen(0, '127.0.0.1')
  await once(relay, 'listening')
  const address = relay.address()
  const port = typeof address === 'object' ? address?.port : undefined
  const gateway = new Followed(
    etcdTopology({
      hosts: `http://127.0.0.1:${port}`,
      prefix: '/stalled/',
      reconcileIntervalMs: 300,
      requestTimeoutMs: 500,
    }),
  )
  await gateway.untilLive()
  expect(fromEtcd).toHaveLength(3)
  fromEtcd[2]?.unpipe()

  await etcd.put('/stalled/upstreams/u1', 'http://10.0.0.1')
  await gateway.untilIds('u1')
  expect(gateway.feed.status.state).toBe('live')
  await gateway.until(() => gateway.feed.status.state === 'lost')
  expect(gateway.feed.status).toMatchObject({
    error: expect.stringContaining('the watch is silent though keys changed'),
  })
  await gateway.untilLive()
  await etcd.put('/stalled/upstreams/u2', 'http://10.0.0.2')
  await gateway.untilIds('u1', 'u2')
  expect(gateway.topologies).toHaveLength(3)
  await gateway.feed.close()
  relay.close()
  await etcd.stop()
})
