// Finds an etcd server for the tests, or installs one: `node scripts/ensure-etcd.mjs` prints its path.
import { spawnSync } from 'node:child_process'
import { existsSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { argv, env, exit, getuid } from 'node:process'
import { pathToFileURL } from 'node:url'

const POLICY = '/usr/sbin/policy-rc.d'

/**
 * The path of an etcd binary that runs: `ETCD_BIN`, else the first on the PATH, else (root on Debian or
 * Ubuntu) one freshly installed. Throws an Error that says what to install.
 */
export function ensureEtcd() {
  if (env.ETCD_BIN) {
    if (runs(env.ETCD_BIN)) return env.ETCD_BIN
    throw new Error(`ETCD_BIN: expected the path of an etcd binary, got ${env.ETCD_BIN}`)
  }
  const found = onPath() ?? (mayInstall() ? install() : undefined)
  if (found) return found
  throw new Error('etcd not found: install it (Debian, Ubuntu: apt-get install etcd-server) or set ETCD_BIN')
}

const runs = (path) => spawnSync(path, ['--version']).status === 0

const onPath = () =>
  (env.PATH ?? '')
    .split(delimiter)
    .map((folder) => join(folder, 'etcd'))
    .find((path) => existsSync(path) && runs(path))

const mayInstall = () => getuid?.() === 0 && existsSync('/etc/debian_version')

function install() {
  apt('update')
  return withoutServiceStart(() => {
    if (!apt('install', 'etcd-server')) apt('install', 'etcd')
    return onPath()
  })
}

const apt = (...words) =>
  spawnSync('apt-get', ['-q', '-y', ...words], {
    env: { ...env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' },
    stdio: ['ignore', 'ignore', 'inherit'],
  }).status === 0

/** Debian starts a service as it installs it, unless policy-rc.d says 101 (action forbidden by policy). */
function withoutServiceStart(work) {
  const saved = `${POLICY}.before-etcd`
  const existed = existsSync(POLICY)
  if (existed) renameSync(POLICY, saved)
  try {
    writeFileSync(POLICY, '#!/bin/sh\nexit 101\n', { mode: 0o755 })
    return work()
  } finally {
    rmSync(POLICY, { force: true })
    if (existed) renameSync(saved, POLICY)
  }
}

if (argv[1] && import.meta.url === pathToFileURL(argv[1]).href) {
  try {
    console.log(ensureEtcd())
  } catch (error) {
    console.error(error.message)
    exit(1)
  }
}
