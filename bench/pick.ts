import xxhash from 'xxhash-wasm'
import { HashRing } from '../src/ring/hash-ring.ts'
import { xxh64Ready } from '../src/ring/xxh64.ts'
import { allocatedBytesPerCandidate } from './allocation.ts'
import { balancerOf, idsOf, keysOf, lease } from './cluster.ts'
import { type Operation, quotients, timeOperations } from './operations.ts'
import type { BenchOptions, BenchReport } from './report.ts'
import { spreadOf, spreadText } from './statistics.ts'

/** What it costs to find an upstream for a key, against hashing the key alone. */
export async function run({ quick }: BenchOptions): Promise<BenchReport> {
  await xxh64Ready()
  const { h64 } = await xxhash()
  const operations: Record<string, Operation> = {
    hash: (keys) => {
      let found = 0n
      for (const key of keys) found = h64(key, 0n)
      return Number(found & 1n)
    },
    'pick, 24 × 160': pick(24),
    'pick, 1,000 × 160': pick(1_000),
    'pick, 10,000 × 160': pick(10_000),
    'decide, 24 × 160': decide(24),
    'pick, 24 × 160, through a cache of owners': pickCached(24),
  }
  const timings = timeOperations(operations, keysOf(4_096), quick ? 60 : 300)
  const lines = Object.keys(operations).map((name) => {
    const nanoseconds = spreadText(spreadOf(timings.get(name) ?? []), 0)
    return `${name.padEnd(44)} ${nanoseconds} ns  ${spreadText(spreadOf(quotients(timings, name, 'hash')), 3)} × hash`
  })
  const ratio = (name: string) => spreadOf(quotients(timings, name, 'hash')).median
  const allocation = allocatedBytesPerCandidate()
  lines.push(allocation.line)
  return {
    ratios: {
      pick_24x160_vs_hash: ratio('pick, 24 × 160'),
      pick_10000x160_vs_hash: ratio('pick, 10,000 × 160'),
      decide_24x160_vs_hash: ratio('decide, 24 × 160'),
      allocated_bytes_per_candidate: allocation.bytes,
    },
    lines,
    notCompared: [],
  }
}

/** Key to owner on a plain ring. */
function pick(upstreams: number): Operation {
  const ring = new HashRing(idsOf(upstreams))
  return (keys) => {
    let found = 0
    for (const key of keys) found += ring.memberAt(ring.firstPoint(ring.position(key)))
    return found
  }
}

/** The same, with what was found kept by key: whether that pays. Holds all keys, which is the best that can be. */
function pickCached(upstreams: number): Operation {
  const ring = new HashRing(idsOf(upstreams))
  const owners = new Map<string, number>()
  return (keys) => {
    let found = 0
    for (const key of keys) {
      let owner = owners.get(key)
      if (owner === undefined) {
        owner = ring.memberAt(ring.firstPoint(ring.position(key)))
        owners.set(key, owner)
      }
      found += owner
    }
    return found
  }
}

/** The whole decision: key, owner, bound, breaker's permit, success, release. */
function decide(upstreams: number): Operation {
  const balancer = balancerOf(upstreams)
  const ring = balancer.placement?.ring
  if (!ring) throw new Error('expected a placement')
  return (keys) => {
    for (const key of keys) {
      const chosen = lease(balancer, ring.position(key))
      chosen.succeeded()
      chosen.release()
    }
    return keys.length
  }
}
