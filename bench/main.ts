// Runs parts of the benchmark, one after another. Argument: `Settings` as JSON, which `scripts/bench.mjs` makes.
import { writeFileSync } from 'node:fs'
import type { BenchReport } from './report.ts'

interface Settings {
  readonly parts: readonly string[]
  readonly quick: boolean
  /** File for the ratios. */
  readonly json?: string
}

const parts: Record<string, () => Promise<{ run(options: { quick: boolean }): Promise<BenchReport> }>> = {
  proxy: () => import('./proxy.ts'),
}

const { quick, json, ...settings } = JSON.parse(process.argv[2] ?? '') as Settings
const ratios: Record<string, number> = {}
for (const name of settings.parts) {
  const part = await parts[name]?.()
  if (!part) continue
  const report = await part.run({ quick })
  Object.assign(ratios, report.ratios)
  console.log([`\n== ${name} ==`, ...report.lines].join('\n'))
  for (const reason of report.notCompared) console.log(`not compared: ${reason}`)
}
console.log(`\n${JSON.stringify({ ratios }, null, 2)}`)
if (json) writeFileSync(json, `${JSON.stringify({ ratios }, null, 2)}\n`)
