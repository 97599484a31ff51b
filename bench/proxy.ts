import { fileURLToPath } from 'node:url'
import { type Contender, nodeContender } from './proxy/contender.ts'
import { connections, findLoadGenerator, type LoadGenerator } from './proxy/load.ts'
import { haproxy, nginx } from './proxy/native.ts'
import { profile } from './proxy/profile.ts'
import type { ProxySettings } from './proxy/proxy-settings.ts'
import { type Comparison, compare, type Round, ratio, spreadOver } from './proxy/rounds.ts'
import { megabyte, smallGet, type Workload, workloads } from './proxy/workloads.ts'
import type { BenchOptions, BenchReport } from './report.ts'
import { type Spread, spreadText } from './statistics.ts'

const checkout = fileURLToPath(new URL('..', import.meta.url))

/** What a proxy costs beside others: each in a process of its own, all in one run. */
export async function run(options: BenchOptions): Promise<BenchReport> {
  const load = findLoadGenerator()
  if (options.profile !== undefined) return profileOurs(options.profile, load)
  const ratios: Record<string, number> = {}
  const lines = [`${connections} connections, ${load.name} where nothing else is said`]
  const notCompared: string[] = []
  for (const workload of workloads) {
    if (options.quick && !workload.isBounded) continue
    const comparison = await compareOn(workload, options, load)
    const found = ratiosOf(workload, comparison)
    for (const [name, spread] of found) ratios[name] = spread.median
    lines.push('', workload.title, ...table(comparison))
    lines.push(...[...found].map(([name, spread]) => `${name}: ${spreadText(spread, 3)}`))
    notCompared.push(...comparison.notCompared.map((reason) => `${workload.title}: ${reason}`))
  }
  return { ratios, lines, notCompared }
}

function compareOn(workload: Workload, options: BenchOptions, load: LoadGenerator): Promise<Comparison> {
  const takesPart = ({ name }: Contender) =>
    (workload.contenders?.includes(name) ?? !name.includes('without')) || name.startsWith('baseline')
  return compare(contenders(options).filter(takesPart), workload.load ?? load, workload.requests, {
    ...{ rounds: options.quick ? 10 : 20, secondsPerRound: 1, warmUpSeconds: 2 },
  })
}

function contenders({ baseline, only }: BenchOptions): Contender[] {
  const all = [
    nodeContender('http-proxy', { kind: 'http-proxy' }),
    ours('ours/http-proxy', checkout, { transport: 'http-proxy' }),
    nodeContender('undici', { kind: 'undici' }),
    ours('ours/undici', checkout, { transport: 'undici' }),
    nodeContender('@fastify/http-proxy', { kind: 'fastify' }),
    nodeContender('http-proxy-middleware', { kind: 'http-proxy-middleware' }),
    nodeContender('http-proxy-middleware, agent', { kind: 'http-proxy-middleware', keepAlive: true }),
    ...[haproxy, nginx],
    ours('ours/http-proxy without metrics', checkout, { transport: 'http-proxy', metrics: false }),
    ours('ours/undici without metrics', checkout, { transport: 'undici', metrics: false }),
    ...(baseline === undefined ? [] : [ours('baseline/http-proxy', baseline, { transport: 'http-proxy' })]),
  ]
  return all.filter(({ name }) => only?.includes(name) ?? true)
}

function ours(name: string, folder: string, options: NonNullable<ProxySettings['options']>): Contender {
  return nodeContender(name, { kind: 'ours', checkout: folder, options })
}

/** The ratios that have bounds, by the names that they have there. */
function ratiosOf(workload: Workload, comparison: Comparison): Map<string, Spread> {
  const found = new Map<string, Spread>()
  const note = (name: string, one: string, other: string, figure = cpu) => {
    const spread = ratio(comparison, one, other, figure)
    if (spread) found.set(name, spread)
  }
  if (workload === smallGet) {
    const best = bestOf(comparison)
    note('http_proxy_transport_vs_http_proxy', 'ours/http-proxy', 'http-proxy')
    note('undici_vs_undici', 'ours/undici', 'undici')
    note('best_vs_fastify', best, '@fastify/http-proxy')
    note('best_vs_hpm', best, 'http-proxy-middleware')
    note('best_vs_haproxy', best, 'haproxy')
  }
  if (workload === megabyte) {
    // Of both transports the worse: each against the one that it is made of.
    const pairs = ['http-proxy', 'undici'].flatMap(
      (name) => ratio(comparison, `ours/${name}`, name, (round) => round.requestsPerSecond) ?? [],
    )
    const [worse] = pairs.sort((left, right) => left.median - right.median)
    if (worse) found.set('throughput_1mb_vs_bare', worse)
  }
  return found
}

/** Ours with the transport that costs less. */
function bestOf({ rounds }: Comparison): string {
  const costs = ['ours/http-proxy', 'ours/undici'].flatMap((name) => {
    const all = rounds.get(name)
    return all ? [{ name, cost: spreadOver(all, cpu).median }] : []
  })
  return costs.sort((left, right) => left.cost - right.cost)[0]?.name ?? ''
}

async function profileOurs(folder: string, load: LoadGenerator): Promise<BenchReport> {
  const lines: string[] = []
  for (const transport of ['http-proxy', 'undici'] as const) {
    const settings = { kind: 'ours', checkout, options: { transport } } as const
    lines.push(...(await profile(folder, `ours-${transport}`, settings, load, smallGet.requests)))
  }
  return { ratios: {}, lines, notCompared: [] }
}

const cpu = (round: Round) => round.cpuMicrosecondsPerRequest

function table({ rounds }: Comparison): string[] {
  return [...rounds].map(([name, all]) => {
    const of = (figure: (round: Round) => number, digits: number) =>
      spreadText(spreadOver(all, figure), digits)
    return [
      name.padEnd(32),
      `${of(cpu, 1)} µs CPU`,
      `${of((round) => round.requestsPerSecond, 0)} requests/s`,
      `p50 ${of((round) => round.p50Ms, 2)} ms`,
      `p99 ${of((round) => round.p99Ms, 2)} ms`,
    ].join('  ')
  })
}
