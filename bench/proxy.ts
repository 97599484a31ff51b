import { fileURLToPath } from 'node:url'
import { type Contender, nodeContender } from './proxy/contender.ts'
import { uniformKeys } from './proxy/keys.ts'
import { connections, findLoadGenerator, type LoadGenerator, type Requests } from './proxy/load.ts'
import { profile } from './proxy/profile.ts'
import type { ProxySettings } from './proxy/proxy-settings.ts'
import { type Comparison, compare, type Round, ratio, spreadOver } from './proxy/rounds.ts'
import type { BenchOptions, BenchReport } from './report.ts'
import type { Spread } from './statistics.ts'

const checkout = fileURLToPath(new URL('..', import.meta.url))

/** What a proxy costs beside others: each in a process of its own, all in one run. */
export async function run(options: BenchOptions): Promise<BenchReport> {
  const load = findLoadGenerator()
  const requests: Requests = { method: 'GET', path: '/32', bodyBytes: 0, keys: uniformKeys() }
  if (options.profile !== undefined) return profileOurs(options.profile, load, requests)
  const comparison = await compare(contenders(options), load, requests, {
    ...{ rounds: options.quick ? 10 : 20, secondsPerRound: 1, warmUpSeconds: 2 },
  })
  const spread = ratio(comparison, 'ours/http-proxy', 'http-proxy', cpu)
  return {
    ratios: spread ? { http_proxy_transport_vs_http_proxy: spread.median } : {},
    lines: [
      `small GET, ${connections} connections, ${load.name}`,
      ...table(comparison),
      ...(spread ? [`ours/http-proxy against http-proxy: ${text(spread, 3)}`] : []),
    ],
    notCompared: comparison.notCompared,
  }
}

function contenders({ baseline, only }: BenchOptions): Contender[] {
  const all = [
    nodeContender('http-proxy', { kind: 'http-proxy' }),
    nodeContender('ours/http-proxy', ours(checkout)),
    ...(baseline === undefined ? [] : [nodeContender('baseline/http-proxy', ours(baseline))]),
  ]
  return all.filter(({ name }) => only?.includes(name) ?? true)
}

function ours(folder: string): Omit<ProxySettings, 'upstreams'> {
  return { kind: 'ours', checkout: folder, options: { transport: 'http-proxy' } }
}

async function profileOurs(folder: string, load: LoadGenerator, requests: Requests): Promise<BenchReport> {
  const lines = await profile(folder, 'ours-http-proxy', ours(checkout), load, requests)
  return { ratios: {}, lines, notCompared: [] }
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
