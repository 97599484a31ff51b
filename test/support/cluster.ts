import { onTestFinished } from 'vitest'
import { type EtcdOptions, type EtcdProcess, startEtcd } from './etcd.ts'

/** A real etcd that is stopped when the test is over. */
export async function startTestEtcd(options?: EtcdOptions): Promise<EtcdProcess> {
  const etcd = await startEtcd(options)
  onTestFinished(() => etcd.stop())
  return etcd
}
