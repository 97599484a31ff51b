import { type Spread, spreadOf } from '../statistics.ts'
import { Child } from './child.ts'
import type { Contender, RunningProxy } from './contender.ts'
import type { LoadGenerator, LoadResult, Requests } from './load.ts'

/** One round of one contender. */
export interface Round extends LoadResult {
  /** Of the proxy's process. */
  readonly cpuMicrosecondsPerRequest: number
}

/** What was measured, by the contender's name: as many rounds for each, taken in turn. */
export interface Comparison {
  readonly rounds: ReadonlyMap<string, readonly Round[]>
  readonly notCompared: readonly string[]
}

export interface RoundOptions {
  readonly rounds: number
  readonly secondsPerRound: number
  /** Before the first round, so that what is measured is compiled. */
  readonly warmUpSeconds: number
}

/** Several, as in production; all in one process, so that they leave a machine of two cores to the proxy. */
export const upstreamsOfAProxy = 4

/** Measures contenders side by side, in turns, so that what the machine does meanwhile happens to all of them. */
export async function compare(
  contenders: readonly Contender[],
  load: LoadGenerator,
  requests: Requests,
  { rounds, secondsPerRound, warmUpSeconds }: RoundOptions,
): Promise<Comparison> {
  const upstream = await Child.start('upstream-main.ts', { upstreams: upstreamsOfAProxy })
  const running = new Map<string, RunningProxy>()
  const measured = new Map<string, Round[]>()
  const notCompared: string[] = []
  try {
    for (const { name, start } of contenders) {
      try {
        running.set(name, await start(upstream.ports))
        measured.set(name, [])
      } catch (error) {
        notCompared.push(`${name}: ${error instanceof Error ? error.message : error}`)
      }
    }
    for (const proxy of running.values()) await load.run(proxy.port, requests, warmUpSeconds)
    for (let round = 0; round < rounds; round++) {
      // There and back again: nobody always follows the same neighbour.
      const order = [...running]
      if (round % 2 === 1) order.reverse()
      for (const [name, proxy] of order) {
        measured.get(name)?.push(await measure(proxy, load, requests, secondsPerRound))
      }
    }
  } finally {
    for (const proxy of running.values()) await proxy.stop()
    await upstream.stop()
  }
  return { rounds: measured, notCompared }
}

async function measure(
  proxy: RunningProxy,
  load: LoadGenerator,
  requests: Requests,
  seconds: number,
): Promise<Round> {
  const before = await proxy.cpuMicroseconds()
  const result = await load.run(proxy.port, requests, seconds)
  const cpu = (await proxy.cpuMicroseconds()) - before
  return { ...result, cpuMicrosecondsPerRequest: cpu / result.requests }
}

/** One figure of each round, spread. */
export function spreadOver(rounds: readonly Round[], figure: (round: Round) => number): Spread {
  return spreadOf(rounds.map(figure))
}

/**
 * The quotient of a figure of two contenders, round by round, and its spread; undefined when one was not measured. The
 * rounds of a pair are neighbours in time, so the machine's moods cancel out.
 */
export function ratio(
  { rounds }: Comparison,
  name: string,
  reference: string,
  figure: (round: Round) => number,
): Spread | undefined {
  const ours = rounds.get(name)
  const theirs = rounds.get(reference)
  if (!ours || !theirs) return undefined
  return spreadOf(
    ours.flatMap((round, index) => {
      const other = theirs[index]
      return other ? [figure(round) / figure(other)] : []
    }),
  )
}
