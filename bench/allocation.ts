import { balancerOf, keysOf, lease } from './cluster.ts'
import { spreadOf } from './statistics.ts'

const upstreams = 24
const decisions = 10_000
/** The floor of bounded load: as many requests fill an upstream of an idle cluster. */
const perUpstream = 8

/**
 * How many bytes more a decision allocates for each candidate that it looks at: what it allocates with 20 of them,
 * less what it does with 2 (both overflow, which is told by one event whatever the number).
 */
export function allocatedBytesPerCandidate(): { bytes: number; line: string } {
  const few = bytesPerDecision(2)
  const many = bytesPerDecision(20)
  const bytes = Math.max(0, Math.round((many - few) / 18))
  return {
    bytes,
    line: `allocated: ${few.toFixed(1)} bytes a decision that looks at 2 upstreams, ${many.toFixed(1)} at 20`,
  }
}

function bytesPerDecision(candidates: number): number {
  const balancer = balancerOf(upstreams)
  const position = balancer.placement?.ring.position(keysOf(1)[0] ?? '') ?? 0n
  // Fills the first owners of the one key, so that the next decision goes past them.
  const held = Array.from({ length: (candidates - 1) * perUpstream }, () => lease(balancer, position))
  const rounds: number[] = []
  for (let round = 0; round < 20; round += 1) {
    globalThis.gc?.()
    const before = process.memoryUsage().heapUsed
    for (let count = 0; count < decisions; count += 1) lease(balancer, position).release()
    rounds.push((process.memoryUsage().heapUsed - before) / decisions)
  }
  for (const one of held) one.release()
  return spreadOf(rounds.slice(5)).median
}
