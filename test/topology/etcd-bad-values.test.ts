import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, it } from 'vitest'
import { etcdTopology } from '../../src/topology/etcd/etcd-topology.ts'
import { startEtcd } from '../support/etcd.ts'
import { Followed } from './follow.ts'

const prefix = '/bad/'
setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')
const heap = () => {
  collectGarbage()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

it('refuses 10,000 bad values and values of 1 MB one by one, keeps none of them, and the good ones serve on', async () => {
  const flags = ['--max-txn-ops', '1000', '--max-request-bytes', '20000000']
  const etcd = await startEtcd({ flags })
  const put = (name: string, value: string) => etcd.client.put(`${prefix}upstreams/${name}`).value(value)
  await put('good', 'http://10.0.0.1').exec()
  const gateway = new Followed(etcdTopology({ hosts: etcd.endpoint, prefix }))
  await gateway.untilIds('good')
  await gateway.untilLive()
  const before = heap()

  for (let from = 0; from < 10_000; from += 1000) {
    const puts = Array.from({ length: 1000 }, (_, index) =>
      put(`bad-${from + index}`, `{"weight":${from + index}}`),
    )
    await etcd.client
      .if('absent', 'Version', '==', 0)
      .then(...puts)
      .commit()
  }
  const large = 'x'.repeat(1_000_000)
  for (let index = 0; index < 40; index += 1) await put(`large-${index}`, large).exec()
  await put('later', 'http://10.0.0.2').exec()
  await gateway.until(() => gateway.ids.includes('later'))
  expect(gateway.ids).toEqual(['good', 'later'])
  expect(gateway.latest.degraded).toBe(true)
  expect(gateway.refused).toHaveLength(10_040)
  expect(gateway.refused.filter(([, { reason }]) => reason === 'limit')).toHaveLength(40)
  // Once for a value, however often it is read.
  await gateway.feed.refresh()
  expect(gateway.refused).toHaveLength(10_040)
  const told = gateway.refused.reduce((sum, [entry, { message }]) => sum + entry.length + message.length, 0)
  expect(told / gateway.refused.length).toBeLessThan(300)
  gateway.refused.length = 0
  gateway.topologies.length = 0
  // What was sent to etcd and read from it is garbage by now; only a fingerprint a key stays.
  await expect.poll(() => heap() - before, { timeout: 5000 }).toBeLessThan(20_000_000)
  console.log(`10,040 refused values of 42 MB: ${((heap() - before) / 1e6).toFixed(1)} MB kept`)
  await gateway.feed.close()
  await etcd.stop()
})
