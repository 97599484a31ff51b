// Runs the tests on a checkout as it was cloned; the arguments are vitest's. The last line says how many passed.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process, { argv, env, execPath, exit } from 'node:process'
import { ensureEtcd } from './ensure-etcd.mjs'
import { prepare, root } from './prepare.mjs'

try {
  // Without etcd nothing runs at all: tests left out in silence would pass for tests that passed.
  env.ETCD_BIN = ensureEtcd()
  prepare()
} catch (error) {
  console.error(error.message)
  exit(1)
}

const folder = mkdtempSync(join(tmpdir(), 'test-report-'))
const report = join(folder, 'report.json')
const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`]
const vitest = join(root, 'node_modules', 'vitest', 'vitest.mjs')
const child = spawn(execPath, [vitest, 'run', ...reporters, ...argv.slice(2)], {
  cwd: root,
  stdio: 'inherit',
})
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal))
const [code] = await once(child, 'exit')
console.log(summary())
rmSync(folder, { recursive: true })
exit(code ?? 1)

function summary() {
  try {
    const { numPassedTests, numFailedTests, testResults } = JSON.parse(readFileSync(report, 'utf8'))
    // A file that could not even be loaded has no tests that could have failed.
    const unloadable = testResults.filter(({ status, assertionResults }) => {
      return status === 'failed' && !assertionResults.some((test) => test.status === 'failed')
    })
    return `${numPassedTests} passed, ${numFailedTests + unloadable.length} failed`
  } catch {
    return 'vitest ended without a report'
  }
}
