import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Child } from './child.ts'
import { nodeContender } from './contender.ts'
import type { LoadGenerator, Requests } from './load.ts'
import type { ProxySettings } from './proxy-settings.ts'
import { upstreamsOfAProxy } from './rounds.ts'

/** The part of V8's format that is read here. */
interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number
    readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number }
  }[]
  readonly samples: readonly number[]
  /** Microseconds since the sample before. */
  readonly timeDeltas: readonly number[]
}

const warmUpSeconds = 4
const profiledSeconds = 10

/**
 * Runs one of ours under `node --cpu-prof`, keeps `NAME.cpuprofile` and `NAME.txt` in the folder, and returns the lines
 * of the latter: self time by function and by file, without the warm-up.
 */
export async function profile(
  folder: string,
  name: string,
  settings: Omit<ProxySettings, 'upstreams'>,
  load: LoadGenerator,
  requests: Requests,
): Promise<string[]> {
  const raw = join(folder, `.${name}`)
  await mkdir(raw, { recursive: true })
  const flags = ['--cpu-prof', '--cpu-prof-dir', raw, '--cpu-prof-interval', '200']
  const contender = nodeContender(name, settings, flags)
  const upstream = await Child.start('upstream-main.ts', { upstreams: upstreamsOfAProxy })
  let count = 0
  try {
    const proxy = await contender.start(upstream.ports)
    try {
      await load.run(proxy.port, requests, warmUpSeconds)
      count = (await load.run(proxy.port, requests, profiledSeconds)).requests
    } finally {
      await proxy.stop()
    }
  } finally {
    await upstream.stop()
  }
  const path = join(folder, `${name}.cpuprofile`)
  // One file for each thread; the program's own is thread 0, whose number stands before the last.
  const file = (await readdir(raw)).find((one) => /\.0\.\d+\.cpuprofile$/.test(one))
  if (file === undefined) throw new Error(`node --cpu-prof left no profile in ${raw}`)
  await rename(join(raw, file), path)
  await rm(raw, { recursive: true })
  const lines = summarize(JSON.parse(await readFile(path, 'utf8')), count)
  await writeFile(join(folder, `${name}.txt`), `${lines.join('\n')}\n`)
  return [`${path}, and as text:`, ...lines]
}

/** Self time of the last `profiledSeconds`, in microseconds a request and as a share of all but idling. */
export function summarize({ nodes, samples, timeDeltas }: CpuProfile, requests: number): string[] {
  const frames = new Map(nodes.map(({ id, callFrame }) => [id, callFrame]))
  const byFunction = new Map<string, number>()
  const byFile = new Map<string, number>()
  let left = profiledSeconds * 1e6
  for (let index = samples.length - 1; index >= 0 && left > 0; index--) {
    const time = timeDeltas[index] ?? 0
    left -= time
    const frame = frames.get(samples[index] ?? 0)
    if (!frame || frame.functionName === '(idle)') continue
    const file = shortName(frame.url)
    const name = frame.functionName || '(anonymous)'
    add(byFunction, file === '' ? name : `${name} ${file}:${frame.lineNumber + 1}`, time)
    add(byFile, file === '' ? name : file, time)
  }
  return [
    `by file, µs a request (${requests} requests)`,
    ...ranking(byFile, requests, 25),
    'by function, µs a request',
    ...ranking(byFunction, requests, 60),
  ]
}

function add(sums: Map<string, number>, name: string, time: number): void {
  sums.set(name, (sums.get(name) ?? 0) + time)
}

function ranking(times: ReadonlyMap<string, number>, requests: number, length: number): string[] {
  const total = [...times.values()].reduce((sum, time) => sum + time, 0)
  return [...times]
    .sort(([, a], [, b]) => b - a)
    .slice(0, length)
    .map(([name, time]) => {
      const share = ((100 * time) / total).toFixed(1)
      return `${(time / requests).toFixed(2).padStart(8)} ${share.padStart(5)}%  ${name}`
    })
}

/** From the package's name on, or from the checkout's folder. */
function shortName(url: string): string {
  return url
    .replace(/^file:\/\//, '')
    .replace(/^.*\/node_modules\//, '')
    .replace(/^\/.*\/(?=dist\/|bench\/)/, '')
}
