import { performance } from 'node:perf_hooks'

/** Runs something for every one of the keys; what it returns keeps the work from being optimised away. */
export type Operation = (keys: readonly string[]) => number

/** Nanoseconds a key, round by round. */
export type Timings = ReadonlyMap<string, readonly number[]>

/** Long enough that the clock's own grain does not count, short enough that a round disturbs all alike. */
const batchMs = 4

let sink = 0

/** Times operations side by side, in turns, each with the same keys. */
export function timeOperations(
  operations: Readonly<Record<string, Operation>>,
  keys: readonly string[],
  rounds: number,
): Timings {
  const timings = new Map<string, number[]>(Object.keys(operations).map((name) => [name, []]))
  const passes = new Map(Object.entries(operations).map(([name, run]) => [name, passesOf(run, keys)]))
  for (let round = 0; round < rounds; round += 1) {
    const order = Object.entries(operations)
    if (round % 2 === 1) order.reverse()
    for (const [name, run] of order) timings.get(name)?.push(time(run, keys, passes.get(name) ?? 1))
  }
  return timings
}

/** How often the keys are gone through in a batch; finding it out warms the operation up. */
function passesOf(run: Operation, keys: readonly string[]): number {
  let nanoseconds = 0
  for (let warmUp = 0; warmUp < 200; warmUp += 1) nanoseconds = time(run, keys, 1)
  return Math.max(1, Math.round((batchMs * 1e6) / (nanoseconds * keys.length)))
}

function time(run: Operation, keys: readonly string[], passes: number): number {
  const started = performance.now()
  for (let pass = 0; pass < passes; pass += 1) sink += run(keys)
  return ((performance.now() - started) * 1e6) / (passes * keys.length)
}

/** Read by nobody, but the engine cannot know. */
export const worked = (): number => sink

/** Each round's quotient of two operations. */
export function quotients(timings: Timings, one: string, other: string): number[] {
  const divisors = timings.get(other) ?? []
  return (timings.get(one) ?? []).map((value, round) => value / (divisors[round] ?? Number.NaN))
}
