import { performance } from 'node:perf_hooks'
import { HashRing } from '../src/ring/hash-ring.ts'
import { RingWalk } from '../src/ring/ring-walk.ts'
import { xxh64Ready } from '../src/ring/xxh64.ts'
import { idsOf, keysOf } from './cluster.ts'
import { longestBlockOfLargeChange } from './event-loop.ts'
import { timeOperations } from './operations.ts'
import type { BenchOptions, BenchReport } from './report.ts'
import { spreadOf, spreadText } from './statistics.ts'

const sizes = [24, 1_000, 10_000]
const virtualNodes = 160

/** What rings cost: built, changed, looked up, walked, in memory; and what a large change does to requests. */
export async function run({ quick }: BenchOptions): Promise<BenchReport> {
  await xxh64Ready()
  const lines: string[] = []
  const rounds = quick ? 5 : 15
  let last: { addedVsBuilt: number; bytes: number } | undefined
  for (const upstreams of sizes) {
    const { build, add, quotient } = timeChanges(upstreams, rounds)
    const bytes = await bytesPerVirtualNode(upstreams)
    const { lookup, walk } = timeReads(upstreams, quick ? 20 : 60)
    lines.push(
      [
        `${upstreams} × ${virtualNodes}`.padEnd(14),
        `build ${spreadText(build, 2)} ms`,
        `one more ${spreadText(add, 3)} ms`,
        `lookup ${spreadText(lookup, 0)} ns`,
        `walk over 3 owners ${spreadText(walk, 0)} ns`,
        `${bytes.toFixed(1)} bytes a virtual node`,
      ].join('  '),
    )
    last = { addedVsBuilt: quotient, bytes }
  }
  const block = await longestBlockOfLargeChange(10_000, quick ? 5 : 15)
  lines.push(
    `a change of 10,000 upstreams: longest block of the event loop ${spreadText(block.changes, 1)} ms, ${block.first.toFixed(1)} ms for the first one after a start`,
  )
  return {
    ratios: {
      add_one_vs_build_10000x160: last?.addedVsBuilt ?? Number.NaN,
      bytes_per_virtual_node: last?.bytes ?? Number.NaN,
      event_loop_block_ms_10000: block.changes.median,
    },
    lines,
    notCompared: [],
  }
}

/** Milliseconds of a full build, and of the same ring made from one with an upstream less. */
function timeChanges(upstreams: number, rounds: number) {
  const ids = idsOf(upstreams)
  const build: number[] = []
  const add: number[] = []
  const repeats = Math.max(1, Math.round(2_000 / upstreams))
  const smaller = new HashRing(ids.slice(1))
  for (let warmUp = 0; warmUp < 20; warmUp += 1) smaller.with(ids)
  for (let round = 0; round < rounds; round += 1) {
    const without = new HashRing(ids.filter((_, index) => index !== (round * 7) % upstreams))
    add.push(millisecondsOf(() => without.with(ids), repeats))
    build.push(millisecondsOf(() => new HashRing(ids), repeats))
  }
  const quotient = spreadOf(add.map((value, round) => value / (build[round] ?? Number.NaN))).median
  return { build: spreadOf(build), add: spreadOf(add), quotient }
}

function millisecondsOf(run: () => HashRing, repeats: number): number {
  globalThis.gc?.() // of what was there before
  const started = performance.now()
  for (let repeat = 0; repeat < repeats; repeat += 1) run()
  return (performance.now() - started) / repeats
}

function timeReads(upstreams: number, rounds: number) {
  const ring = new HashRing(idsOf(upstreams))
  const walk = new RingWalk(ring)
  const keys = keysOf(4_096)
  const positions = keys.map((key) => ring.position(key))
  const timings = timeOperations(
    {
      lookup: () => {
        let found = 0
        for (const position of positions) found += ring.memberAt(ring.firstPoint(position))
        return found
      },
      walk: () => {
        let found = 0
        for (const position of positions) {
          walk.start(position)
          found += walk.next() + walk.next() + walk.next()
        }
        return found
      },
    },
    keys,
    rounds,
  )
  return { lookup: spreadOf(timings.get('lookup') ?? []), walk: spreadOf(timings.get('walk') ?? []) }
}

/** Of the ring alone: its members' ids are there anyway. */
async function bytesPerVirtualNode(upstreams: number): Promise<number> {
  const ids = idsOf(upstreams)
  const rings: HashRing[] = []
  const count = Math.max(1, Math.round(1_000 / upstreams))
  const before = await bytesInUse()
  for (let index = 0; index < count; index += 1) rings.push(new HashRing(ids))
  const bytes = (await bytesInUse()) - before
  return bytes / count / (rings[0]?.size ?? Number.NaN)
}

/** Of the JavaScript heap and of array buffers, once nothing is left to collect. */
async function bytesInUse(): Promise<number> {
  for (let pass = 0; pass < 4; pass += 1) {
    globalThis.gc?.()
    await new Promise((resolve) => setTimeout(resolve, 20)) // the memory of buffers is given back beside the collection
  }
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}
