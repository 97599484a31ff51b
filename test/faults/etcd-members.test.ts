import { expect } from 'vitest'
import { type EtcdCluster, startEtcdCluster } from '../support/etcd-cluster.ts'
import { eventually } from '../support/servers.ts'
import { etcdSource, fault, prefix, type Stage, scaled, sleep } from './fault.ts'

/** Three members of etcd, three upstreams of four registered, a gateway that knows all members, and traffic. */
async function startMembers(stage: Stage, first: (cluster: EtcdCluster) => Promise<string>) {
  const [upstreams, members] = await Promise.all([stage.upstreams('a', 'b', 'c', 'd'), startEtcdCluster()])
  stage.defer(() => members.stop())
  const put = async (id: string) => {
    const url = upstreams.find((upstream) => upstream.id === id)?.url ?? ''
    await (await members.leader()).put(`${prefix}upstreams/${id}`, { url })
  }
  for (const id of ['a', 'b', 'c']) await put(id)
  const own = await first(members)
  const hosts = [own, ...members.endpoints.filter((endpoint) => endpoint !== own)]
  const { proxy, port } = await stage.gateway({ topology: etcdSource(hosts, { report: false }) })
  const isLive = () => proxy.status().source.state === 'live'
  await eventually('a live watch', isLive, 20_000)
  const traffic = stage.traffic({ ports: [port], perSecond: scaled(100, 1_000) })
  await sleep(scaled(500, 5_000))
  const ids = () => proxy.status().upstreams.map(({ id }) => id)
  return {
    ...{ members, proxy, ids },
    /** Makes a change, and waits for it and a live watch. */
    async changes(): Promise<void> {
      const leader = await members.leader()
      await leader.delete(`${prefix}upstreams/b`)
      await put('d')
      const changed = performance.now()
      await eventually('the change', () => ids().join() === 'a,c,d' && isLive(), 35_000)
      stage.converged(changed)
    },
    async end(): Promise<void> {
      await sleep(scaled(500, 5_000))
      const account = stage.take(await traffic.stop(upstreams))
      expect([...account.failed, ...account.unsafeFailed, ...account.lost]).toEqual([])
    },
  }
}

fault('the leader of three members killed', async (stage) => {
  const cluster = await startMembers(stage, async (members) => (await members.leader()).endpoint)
  await (await cluster.members.leader()).kill()
  await cluster.changes()
  await cluster.end()
})

fault('two of three members killed', async (stage) => {
  const cluster = await startMembers(stage, async (members) => (await members.leader()).endpoint)
  const leader = await cluster.members.leader()
  const others = cluster.members.members.filter((member) => member !== leader)
  await Promise.all(others.map((member) => member.kill()))
  // The watch itself stands: only a linearizable read shows that nobody decides any more.
  await eventually('the loss', () => cluster.proxy.status().source.state === 'lost', 45_000)
  await sleep(scaled(1_000, 30_000))
  expect(cluster.ids()).toEqual(['a', 'b', 'c'])
  await Promise.all(others.map((member) => member.start()))
  await cluster.changes()
  await cluster.end()
})

fault('one of two endpoints frozen', async (stage) => {
  const cluster = await startMembers(stage, async (members) => {
    const leader = await members.leader()
    return members.endpoints.find((endpoint) => endpoint !== leader.endpoint) ?? ''
  })
  const leader = await cluster.members.leader()
  // The one that the gateway watches; the leader and the third are a majority.
  const watched = cluster.members.members.find((member) => member !== leader)
  await watched?.kill('SIGSTOP')
  await cluster.changes()
  await watched?.kill('SIGCONT')
  await cluster.end()
})
