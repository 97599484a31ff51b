import { expect } from 'vitest'
import type { EtcdProcess } from '../support/etcd.ts'
import { fault, prefix, type Stage, scaled, sleep } from './fault.ts'

/** Longest that a request may wait for the gateway's event loop, at the 99th percentile, in milliseconds. */
const longestDelayMs = 50
/** Time that the percentile is taken of; the flood and its digestion fall into it. */
const windowMs = scaled(5_000, 10_000)

const alone = { alone: true }

/** A gateway in a process of its own, whose event loop is measured, with three upstreams and traffic. */
async function startMeasured(stage: Stage) {
  const [upstreams, etcd] = await Promise.all([stage.upstreams('a', 'b', 'c'), stage.etcd()])
  for (const { id, url } of upstreams) await etcd.put(`${prefix}upstreams/${id}`, { url })
  const gateway = await stage.gatewayProcess({ etcd: { hosts: etcd.endpoint, prefix } })
  await gateway.until(({ present }) => present === 3)
  const traffic = stage.traffic({ ports: [gateway.port], perSecond: scaled(100, 1_000) })
  await sleep(1_000) // what is compiled at first use
  await gateway.measure()
  const measured = performance.now()
  const end = async () => {
    await sleep(measured + windowMs - performance.now())
    const { delayP99Ms, delayMaxMs, status } = await gateway.report()
    const account = stage.take(await traffic.stop(upstreams))
    console.log(
      `${stage.result.name}: event loop delay p99 ${delayP99Ms.toFixed(1)} ms, longest ${delayMaxMs.toFixed(1)} ms`,
    )
    expect(account.failed).toEqual([])
    expect(account.lost).toEqual([])
    expect(delayP99Ms).toBeLessThanOrEqual(longestDelayMs)
    return status
  }
  return { etcd, gateway, upstreams, end }
}

/** Puts many values as fast as etcd takes them, as many to a transaction as it allows by default. */
async function putMany(
  etcd: EtcdProcess,
  count: number,
  entry: (index: number) => readonly [name: string, value: string | Buffer],
): Promise<void> {
  const size = 128
  for (let from = 0; from < count; from += size) {
    const puts = Array.from({ length: Math.min(size, count - from) }, (_, index) => {
      const [name, value] = entry(from + index)
      return etcd.client.put(`${prefix}upstreams/${name}`).value(value)
    })
    await etcd.client
      .if('none', 'Create', '==', 0)
      .then(...puts)
      .commit()
  }
}

fault(
  '10,000 bad values',
  async (stage) => {
    const { etcd, gateway, end } = await startMeasured(stage)
    const bad = [
      '{',
      '{"url":"ftp://a"}',
      '{"url":"http://u:p@a"}',
      '{"weight":-1,"url":"http://a"}',
      '',
      '[]',
      '7',
    ]
    const started = performance.now()
    await putMany(etcd, 10_000, (index) => [`bad-${index}`, `${bad[index % bad.length]}`])
    await gateway.until(({ refused }) => refused === 10_000)
    stage.converged(started)
    const status = await end()
    expect(status.upstreams.map(({ id }) => id)).toEqual(['a', 'b', 'c'])
    expect(status.degraded).toBe(true)
  },
  alone,
)

fault(
  'values of 1 MB',
  async (stage) => {
    const { etcd, gateway, end } = await startMeasured(stage)
    const megabyte = 'm'.repeat(1_000_000)
    const values = [
      megabyte,
      `{"url":"${megabyte}"}`,
      Buffer.alloc(1_000_000, 0xff),
      `{"url":"http://a","metadata":{"note":"${megabyte}"}}`,
      `${'['.repeat(500_000)}${']'.repeat(500_000)}`,
    ]
    const started = performance.now()
    for (const [index, value] of values.entries())
      await etcd.client.put(`${prefix}upstreams/large-${index}`).value(value).exec()
    await gateway.until(({ refused }) => refused >= 4)
    stage.converged(started)
    const status = await end()
    expect(status.upstreams.map(({ id }) => id).slice(0, 3)).toEqual(['a', 'b', 'c'])
  },
  alone,
)

fault(
  '5,000 upstreams',
  async (stage) => {
    const { etcd, gateway, upstreams, end } = await startMeasured(stage)
    const started = performance.now()
    // All of them are one of three in truth: that many ports there are not.
    await putMany(etcd, 5_000, (index) => [
      `many-${index}`,
      `{"url":"http://127.0.0.1:${upstreams[index % 3]?.port}/${index}"}`,
    ])
    await gateway.until(({ present }) => present === 5_003)
    stage.converged(started)
    await end()
  },
  alone,
)

fault(
  '1,000 changes in one second',
  async (stage) => {
    const { etcd, gateway, upstreams, end } = await startMeasured(stage)
    const before = await gateway.progress()
    const started = performance.now()
    let last = 0n
    const put = async (index: number) => {
      const { header } = await etcd.client
        .put(`${prefix}upstreams/extra-${index % 50}`)
        .value(`{"url":"${upstreams[index % 3]?.url}","weight":${1 + (index % 7)}}`)
        .exec()
      last = BigInt(header.revision)
    }
    for (let index = 0; index < 1_000; index += 50) {
      await Promise.all(Array.from({ length: 50 }, (_, offset) => put(index + offset)))
      await sleep(started + index - performance.now())
    }
    const written = performance.now()
    await gateway.until(({ revision }) => BigInt(revision) >= last)
    stage.converged(written)
    const { changes } = await gateway.progress()
    console.log(
      `1,000 changes in ${Math.round(written - started)} ms: ${changes - before.changes} topologies`,
    )
    await end()
  },
  alone,
)
