// Steady load under random faults: `npm run soak -- --minutes N` (default 10), `--seed S` to see one again.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import process, { argv, env, execPath, exit } from 'node:process'
import { parseArgs } from 'node:util'
import { ensureEtcd } from './ensure-etcd.mjs'
import { prepare, root } from './prepare.mjs'

const options = {
  minutes: { type: 'string', default: '10' },
  seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 32)) },
}
let values
try {
  ;({ values } = parseArgs({ options }))
  if (!(Number(values.minutes) > 0))
    throw new Error(`--minutes: expected a number above 0, got ${values.minutes}`)
  if (!Number.isInteger(Number(values.seed)))
    throw new Error(`--seed: expected an integer, got ${values.seed}`)
  env.ETCD_BIN = ensureEtcd()
  prepare()
} catch (error) {
  console.error(`${error.message} (${argv.slice(2).join(' ')})`)
  exit(2)
}

const loader = join(root, 'test', 'support', 'typescript-loader.mjs')
const child = spawn(
  execPath,
  ['--import', loader, join(root, 'test', 'soak', 'main.ts'), values.minutes, values.seed],
  { cwd: root, stdio: 'inherit' },
)
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal))
const [code] = await once(child, 'exit')
exit(code ?? 1)
