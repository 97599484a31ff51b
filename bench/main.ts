// Runs parts of the benchmark, one after another. Argument: `Settings` as JSON, which `scripts/bench.mjs` makes.
import { writeFileSync } from 'node:fs'
import type { BenchOptions, BenchReport } from './report.ts'

interface Settings extends BenchOptions {
  readonly parts: readonly string[]
  /** File for the ratios. */
  readonly json?: string
}

const parts: Record<string, () => Promise<{ run(options: BenchOptions): Promise<BenchReport> }>> = {
  pick: () => import('./pick.ts'),
  ring: () => import('./ring.ts'),
  proxy: () => import('./proxy.ts'),
  topology: () => import('./topology.ts'),
}

const settings = JSON.parse(process.argv[2] ?? '') as Settings
const ratios: Record<string, number> = {}
for (const name of settings.parts) {
  const part = await parts[name]?.()
  if (!part) continue
  const report = await part.run(settings)
  Object.assign(ratios, report.ratios)
  console.log([`\n== ${name} ==`, ...report.lines].join('\n'))
  for (const reason of report.notCompared) console.log(`not compared: ${reason}`)
}
if (Object.keys(ratios).length > 0) console.log(`\n${JSON.stringify({ ratios }, null, 2)}`)
if (settings.json) writeFileSync(settings.json, `${JSON.stringify({ ratios }, null, 2)}\n`)
