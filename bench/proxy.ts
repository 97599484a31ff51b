import { fileURLToPath } from 'node:url'
import { nodeContender } from './proxy/contender.ts'
import { uniformKeys } from './proxy/keys.ts'
import { connections, findLoadGenerator } from './proxy/load.ts'
import { type Comparison, compare, type Round, ratio, spreadOver } from './proxy/rounds.ts'
import type { BenchReport } from './report.ts'
import type { Spread } from './statistics.ts'

const checkout = fileURLToPath(new URL('..', import.meta.url))

/** What a proxy costs beside others: each in a process of its own, all in one run. */
export async function run({ quick }: { quick: boolean }): Promise<BenchReport> {
  const load = findLoadGenerator()
  const contenders = [
    nodeContender('http-proxy', { kind: 'http-proxy' }),
    nodeContender('ours (http-proxy)', { kind: 'ours', checkout, options: { transport: 'http-proxy' } }),
  ]
  const comparison = await compare(
    contenders,
    load,
    { method: 'GET', path: '/32', bodyBytes: 0, keys: uniformKeys() },
    { rounds: quick ? 10 : 20, secondsPerRound: 1, warmUpSeconds: 2 },
  )
  const spread = ratio(comparison, 'ours (http-proxy)', 'http-proxy', cpu)
  return {
    ratios: spread ? { http_proxy_transport_vs_http_proxy: spread.median } : {},
    lines: [
      `small GET, ${connections} connections, ${load.name}`,
      ...table(comparison),
      `ours (http-proxy) / http-proxy: ${spread ? text(spread, 3) : '–'}`,
    ],
    notCompared: comparison.notCompared,
  }
}

const cpu = (round: Round) => round.cpuMicrosecondsPerRequest

function table({ rounds }: Comparison): string[] {
  return [...rounds].map(([name, all]) => {
    const of = (figure: (round: Round) => number, digits: number) => text(spreadOver(all, figure), digits)
    return [
      name.padEnd(24),
      `${of(cpu, 1)} µs CPU`,
      `${of((round) => round.requestsPerSecond, 0)} requests/s`,
      `p50 ${of((round) => round.p50Ms, 2)} ms`,
      `p99 ${of((round) => round.p99Ms, 2)} ms`,
    ].join('  ')
  })
}

function text({ median, lowerQuartile, upperQuartile }: Spread, digits: number): string {
  return `${median.toFixed(digits)} (${lowerQuartile.toFixed(digits)}–${upperQuartile.toFixed(digits)})`
}
