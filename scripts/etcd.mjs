// Runs an etcd in the foreground to try things with: on loopback, its data gone at the end. ETCD_PORT: 2379.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process, { env, exit } from 'node:process'
import { createInterface } from 'node:readline'
import { ensureEtcd } from './ensure-etcd.mjs'

const url = `http://127.0.0.1:${env.ETCD_PORT || 2379}`
const peers = 'http://127.0.0.1:0' // any free port: there are none
let binary
try {
  binary = ensureEtcd()
} catch (error) {
  console.error(error.message)
  exit(1)
}

const folder = mkdtempSync(join(tmpdir(), 'etcd-'))
const etcd = spawn(
  binary,
  [
    ...['--data-dir', folder, '--listen-client-urls', url, '--advertise-client-urls', url],
    ...['--listen-peer-urls', peers, '--initial-advertise-peer-urls', peers],
    ...['--initial-cluster', `default=${peers}`, '--logger', 'zap'],
  ],
  { stdio: ['ignore', 'ignore', 'pipe'] },
)
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => etcd.kill('SIGTERM'))

let lastLine = ''
createInterface(etcd.stderr).on('line', (line) => {
  lastLine = line
  if (line.includes('serving client traffic') || line.includes('serving insecure client')) {
    console.log(`etcd listens on ${url}; it forgets everything at the end (Ctrl-C)`)
  }
})
const [code, signal] = await once(etcd, 'close')
rmSync(folder, { recursive: true, force: true })
if (code) console.error(`etcd ended: ${reasonIn(lastLine)}`)
exit(signal === 'SIGTERM' ? 0 : (code ?? 1))

/** etcd's last words are JSON with a stack. */
function reasonIn(line) {
  try {
    const { error, msg } = JSON.parse(line)
    return error ?? msg
  } catch {
    return line
  }
}
