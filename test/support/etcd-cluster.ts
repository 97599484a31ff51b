import { EtcdProcess, etcdBinary, freePort } from './etcd.ts'

/** Three real etcd processes on loopback that elect a leader among them. */
export class EtcdCluster {
  readonly members: readonly EtcdProcess[]

  constructor(members: readonly EtcdProcess[]) {
    this.members = members
  }

  /** What a client is given as `hosts`. */
  get endpoints(): string[] {
    return this.members.map(({ endpoint }) => endpoint)
  }

  /** The member that leads, once there is one among those that answer. */
  async leader(): Promise<EtcdProcess> {
    for (;;) {
      for (const member of this.members) {
        // One that was killed does not answer.
        const status = await member.client.maintenance.status().catch(() => undefined)
        if (status?.header.member_id === status?.leader && status !== undefined) return member
      }
    }
  }

  async stop(): Promise<void> {
    await Promise.all(this.members.map((member) => member.stop()))
  }
}

/** Starts a cluster of three; resolves once it has a leader. */
export async function startEtcdCluster(): Promise<EtcdCluster> {
  const binary = etcdBinary()
  for (let attempt = 1; ; attempt += 1) {
    const names = ['m1', 'm2', 'm3']
    const ports = await Promise.all(
      names.map(async (name) => ({ name, port: await freePort(), peer: await freePort() })),
    )
    const initial = ports.map(({ name, peer }) => `${name}=http://127.0.0.1:${peer}`).join()
    const cluster = new EtcdCluster(
      ports.map(({ name, port, peer }) => {
        // The last of a flag that is given twice counts. Elections slower than alone: three share a machine.
        const flags = ['--name', name, '--initial-cluster', initial, '--initial-cluster-token', initial]
        const pace = ['--heartbeat-interval', '50', '--election-timeout', '500']
        return new EtcdProcess(binary, port, peer, { flags: [...flags, ...pace] })
      }),
    )
    try {
      await Promise.all(cluster.members.map((member) => member.start()))
      await cluster.leader()
      return cluster
    } catch (error) {
      await cluster.stop()
      // Between our look and etcd's bind somebody else may have taken a port.
      if (attempt === 3 || !String(error).includes('address already in use')) throw error
    }
  }
}
