// Makes a checkout ready to run: installs and builds what is missing or out of date. Needs Node and npm only.
// `node scripts/prepare.mjs` does it.
import { spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { argv, execPath, exit, pid, platform, kill as signal } from 'node:process'
import { fileURLToPath, pathToFileURL } from 'node:url'

export const root = fileURLToPath(new URL('..', import.meta.url))

/** What a build writes. */
const outputs = [
  ...['index.js', 'index.cjs', 'index.d.ts', 'index.d.cts'].map((name) => join('dist', name)),
  ...['gateway.js', 'upstream.js'].map((name) => join('examples', 'dist', name)),
]
const sources = ['src', 'examples/gateway', 'examples/upstream', 'examples/shared']
const settings = ['package.json', 'package-lock.json', 'tsconfig.json', 'tsdown.config.ts']

/** Installs and builds as needed. Several may call it at once: one works, the others wait. Throws an Error of one line. */
export function prepare() {
  if (isInstalled() && isBuilt()) return
  alone(() => {
    if (!isInstalled()) {
      run('npm ci', 'npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'])
    }
    if (!isBuilt())
      run('the build', execPath, [join('node_modules', 'tsdown', 'dist', 'run.mjs'), '--log-level', 'warn'])
  })
}

/** Whether dist holds what the sources say now. */
const isBuilt = () => Math.min(...outputs.map(changedAt)) >= Math.max(...inputs().map(changedAt))

/** npm writes its own copy of the lock file last, so an interrupted installation has none. */
const isInstalled = () =>
  changedAt(join('node_modules', '.package-lock.json')) >= changedAt('package-lock.json')

const inputs = () => [
  ...settings,
  ...sources.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true })
      .filter((name) => name.endsWith('.ts'))
      .map((name) => join(folder, name)),
  ),
]

const changedAt = (path) =>
  statSync(join(root, path), { throwIfNoEntry: false })?.mtimeMs ?? Number.NEGATIVE_INFINITY

function run(what, command, words) {
  // On Windows npm is a script, which only a shell finds. Its output goes beside ours, which stays for results.
  const shell = platform === 'win32' && command === 'npm'
  const { status, error } = spawnSync(command, words, { cwd: root, stdio: ['ignore', 2, 2], shell })
  if (status !== 0) throw new Error(`${what} failed (${error?.message ?? `exit code ${status}`})`)
}

/** Runs `work` while no other process on this checkout does. */
function alone(work) {
  const lock = join(root, '.cache', 'prepare.pid')
  mkdirSync(join(root, '.cache'), { recursive: true })
  while (!take(lock)) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200)
  try {
    work()
  } finally {
    rmSync(lock, { force: true })
  }
}

function take(lock) {
  try {
    writeFileSync(lock, String(pid), { flag: 'wx' })
    return true
  } catch (error) {
    if (error.code !== 'EEXIST') throw error
    if (!holderLives(lock)) rmSync(lock, { force: true })
    return false
  }
}

function holderLives(lock) {
  try {
    return signal(Number(readFileSync(lock, 'utf8')), 0)
  } catch (error) {
    return error.code === 'EPERM'
  }
}

if (argv[1] && import.meta.url === pathToFileURL(argv[1]).href) {
  try {
    prepare()
  } catch (error) {
    console.error(error.message)
    exit(1)
  }
}
