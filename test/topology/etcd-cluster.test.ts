import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { etcdTopology } from '../../src/topology/etcd/etcd-topology.ts'
import type { EtcdProcess } from '../support/etcd.ts'
import { type EtcdCluster, startEtcdCluster } from '../support/etcd-cluster.ts'
import { Followed } from './follow.ts'

const prefix = '/cluster/'
let cluster: EtcdCluster
let followed: Followed | undefined

beforeAll(async () => {
  cluster = await startEtcdCluster()
})
afterAll(() => cluster.stop())
afterEach(() => followed?.feed.close())

/** Follows the cluster, by the given member first. */
function open(first: EtcdProcess): Followed {
  const others = cluster.endpoints.filter((endpoint) => endpoint !== first.endpoint)
  followed = new Followed(
    etcdTopology({
      ...{ hosts: [first.endpoint, ...others], prefix, report: false },
      ...{ reconcileIntervalMs: 300, requestTimeoutMs: 1000 },
    }),
  )
  return followed
}
const register = (member: EtcdProcess, name: string) =>
  member.put(`${prefix}upstreams/${name}`, 'http://10.0.0.1')
const errorOf = ({ feed: { status } }: Followed) => ('error' in status ? status.error : undefined)

describe('three members of etcd', () => {
  it.each(['the leader', 'a follower'])(
    'are followed through the death of the leader, by way of %s',
    async (way) => {
      const leader = await cluster.leader()
      const [follower, other] = cluster.members.filter((member) => member !== leader)
      if (!follower || !other) throw new Error('expected three members')
      await register(leader, 'u1')
      const gateway = open(way === 'the leader' ? leader : follower)
      await gateway.until(() => gateway.ids.includes('u1'))
      await gateway.untilLive()
      const { epoch } = gateway.latest
      await leader.kill()
      const begin = performance.now()
      const next = await cluster.leader()
      expect(next).not.toBe(leader)
      await register(next, `after-${way.at(-1)}`)
      await gateway.until(() => gateway.ids.includes(`after-${way.at(-1)}`))
      console.log(
        `leader killed, by way of ${way}: a change after it known within ${(performance.now() - begin).toFixed(0)} ms`,
      )
      await gateway.untilLive()
      expect(gateway.latest.epoch).toBe(epoch)
      await leader.restart()
    },
  )

  it('without a majority leave the last topology, are told to be lost, and are followed again', async () => {
    const leader = await cluster.leader()
    const [first, second] = cluster.members.filter((member) => member !== leader)
    if (!first || !second) throw new Error('expected three members')
    await register(leader, 'u1')
    const gateway = open(leader)
    await gateway.until(() => gateway.ids.includes('u1'))
    await gateway.untilLive()
    const { ids } = gateway
    await Promise.all([first.kill(), second.kill()])
    // The watch itself stands: only a linearizable read shows that nobody decides any more.
    await gateway.until(() => gateway.feed.status.state === 'lost')
    await gateway.until(() => errorOf(gateway)?.includes(first.endpoint) === true)
    expect(errorOf(gateway)).toMatch(
      /did not answer in time.*cannot be reached|cannot be reached.*did not answer/s,
    )
    await expect(gateway.feed.refresh()).rejects.toThrow('lost')
    expect(gateway.ids).toEqual(ids)
    const told = gateway.topologies.length

    await Promise.all([first.restart(), second.restart()])
    await gateway.untilLive()
    await register(await cluster.leader(), 'u9')
    await gateway.until(() => gateway.ids.includes('u9'))
    expect(gateway.ids).toEqual([...ids, 'u9'].sort())
    expect(gateway.latest.epoch).toBe(0)
    expect(gateway.topologies.length).toBe(told + 1)
  })
})
