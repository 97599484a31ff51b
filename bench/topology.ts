import { performance } from 'node:perf_hooks'
import { consistentHashProxy, etcdTopology } from '../src/index.ts'
import { startEtcd } from '../test/support/etcd.ts'
import type { BenchOptions, BenchReport } from './report.ts'
import { spreadOf, spreadText } from './statistics.ts'

const prefix = '/consistent-hash-proxy/bench/'

/** How long a change in etcd takes to be the ring that requests are placed on. */
export async function run({ quick }: BenchOptions): Promise<BenchReport> {
  const etcd = await startEtcd()
  const put = (id: string, weight: number) =>
    etcd.client
      .put(`${prefix}upstreams/${id}`)
      .value(JSON.stringify({ url: 'http://127.0.0.1:1', weight }))
      .exec()
  try {
    for (let index = 0; index < 24; index += 1) await put(`upstream-${index}`, 1)
    const topology = etcdTopology({ hosts: etcd.endpoint, prefix })
    const proxy = consistentHashProxy({ key: 'ip', topology })
    let arrived: ((at: number) => void) | undefined
    proxy.on('topology', () => arrived?.(performance.now()))
    await proxy.ready()
    const puts: number[] = []
    const lives: number[] = []
    for (let change = 0; change < (quick ? 100 : 300); change += 1) {
      const live = new Promise<number>((resolve) => {
        arrived = resolve
      })
      const started = performance.now()
      await put('upstream-7', 1 + (change % 2))
      puts.push(performance.now() - started)
      lives.push((await live) - started)
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    await proxy.close()
    const [putAlone, putToRing] = [spreadOf(puts), spreadOf(lives)]
    return {
      ratios: { etcd_put_to_ring_ms: putToRing.median },
      lines: [
        `put, answered by etcd: ${spreadText(putAlone, 2)} ms`,
        `put, live in the ring of 24 upstreams: ${spreadText(putToRing, 2)} ms`,
      ],
      notCompared: [],
    }
  } finally {
    await etcd.stop()
  }
}
