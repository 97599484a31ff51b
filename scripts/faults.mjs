// The fault suite: `npm run test:faults`, with `--long` for faults as long as issue trackers know them, and `--json FILE`
// for what each did. Other arguments are vitest's.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process, { argv, env, execPath, exit } from 'node:process'
import { parseArgs } from 'node:util'
import { ensureEtcd } from './ensure-etcd.mjs'
import { prepare, root } from './prepare.mjs'

const options = { long: { type: 'boolean', default: false }, json: { type: 'string' } }
const { values, positionals } = parse()
try {
  env.ETCD_BIN = ensureEtcd()
  prepare()
} catch (error) {
  console.error(error.message)
  exit(1)
}

const folder = mkdtempSync(join(tmpdir(), 'faults-report-'))
const report = join(folder, 'report.json')
const filters = positionals.length > 0 ? positionals : ['test/faults']
const child = spawn(
  execPath,
  [
    ...[join(root, 'node_modules', 'vitest', 'vitest.mjs'), 'run', ...filters],
    ...['--reporter=default', '--reporter=json', `--outputFile.json=${report}`],
  ],
  { cwd: root, stdio: 'inherit', env: { ...env, FAULTS: values.long ? 'long' : 'short' } },
)
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal))
const [code] = await once(child, 'exit')
const faults = readFaults()
rmSync(folder, { recursive: true })
if (values.json) writeFileSync(values.json, `${JSON.stringify({ faults }, null, 2)}\n`)
console.log(`${faults.filter(({ holds }) => holds).length} of ${faults.length} faults hold`)
exit(code ?? 1)

function parse() {
  try {
    return parseArgs({ options, allowPositionals: true })
  } catch (error) {
    console.error(
      `${error.message}; expected [--long] [--json FILE] [test files], got ${argv.slice(2).join(' ')}`,
    )
    exit(2)
  }
}

/** What each fault did stands beside its test's result. */
function readFaults() {
  try {
    const { testResults } = JSON.parse(readFileSync(report, 'utf8'))
    return testResults.flatMap(({ assertionResults }) =>
      assertionResults.flatMap(({ meta }) => meta.fault ?? []),
    )
  } catch {
    return []
  }
}
