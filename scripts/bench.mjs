// The benchmark: `npm run bench` for all of it, `npm run bench:proxy` and its like for a part, `--quick` for the ratios
// that have bounds only, `--json FILE` to keep them. Of `bench:proxy`: `--only NAMES` (comma-separated), `--baseline DIR`
// (a built checkout to be measured beside this one), `--profile DIR` (CPU profiles of ours).
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join, resolve } from 'node:path'
import process, { argv, execPath, exit } from 'node:process'
import { parseArgs } from 'node:util'
import { prepare, root } from './prepare.mjs'

const parts = ['pick', 'ring', 'proxy', 'topology']
const options = {
  quick: { type: 'boolean', default: false },
  json: { type: 'string' },
  only: { type: 'string' },
  baseline: { type: 'string' },
  profile: { type: 'string' },
}
const usage = `[${parts.join('|')}] [--quick] [--json FILE] [--only PROXY,…] [--baseline DIR] [--profile DIR]`
const settings = parse()
try {
  prepare()
} catch (error) {
  console.error(error.message)
  exit(1)
}

const loader = join(root, 'test', 'support', 'typescript-loader.mjs')
const child = spawn(
  execPath,
  ['--expose-gc', '--import', loader, join(root, 'bench', 'main.ts'), JSON.stringify(settings)],
  { cwd: root, stdio: 'inherit' },
)
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal))
const [code] = await once(child, 'exit')
exit(code ?? 1)

function parse() {
  try {
    const { values, positionals } = parseArgs({ options, allowPositionals: true })
    const unknown = positionals.find((name) => !parts.includes(name))
    if (unknown !== undefined) throw new Error(`there is no part '${unknown}'`)
    const { quick, only, ...paths } = values
    const absolute = Object.entries(paths).map(([name, path]) => [name, resolve(path)])
    return {
      parts: positionals.length > 0 ? positionals : parts,
      ...{ quick, only: only?.split(',') },
      ...Object.fromEntries(absolute),
    }
  } catch (error) {
    console.error(`${error.message}; expected ${usage}, got ${argv.slice(2).join(' ')}`)
    exit(2)
  }
}
