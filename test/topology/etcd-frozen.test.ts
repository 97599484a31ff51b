import { expect, it } from 'vitest'
import { etcdTopology } from '../../src/topology/etcd/etcd-topology.ts'
import { startEtcd } from '../support/etcd.ts'
import { Followed } from './follow.ts'

it('notices an etcd that stands still, serves on, and is fresh soon after (etcd-io/etcd#8980)', async () => {
  const etcd = await startEtcd()
  const source = etcdTopology({ hosts: etcd.endpoint, prefix: '/frozen/', reconcileIntervalMs: 1000 })
  const followed = new Followed(source)
  await etcd.put('/frozen/upstreams/u1', 'http://10.0.0.1')
  await followed.untilIds('u1')
  await followed.untilLive()
  await etcd.kill('SIGSTOP')
  await followed.until(() => followed.feed.status.state === 'lost')
  expect(followed.feed.status).toMatchObject({ error: expect.stringContaining('did not answer in time') })
  expect(followed.ids).toEqual(['u1'])
  await new Promise((resolve) => setTimeout(resolve, 1000))
  await etcd.kill('SIGCONT')
  await etcd.put('/frozen/upstreams/u2', 'http://10.0.0.2')
  const begin = performance.now()
  await followed.untilIds('u1', 'u2')
  expect(performance.now() - begin).toBeLessThan(5000)
  expect(followed.latest.epoch).toBe(0)
  await followed.feed.close()
  await etcd.stop()
})
