// Checks what users get: packs the library, installs it in an empty folder, and uses it there from both module systems.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { execPath } from 'node:process'
import { prepare, root } from './prepare.mjs'

const consumers = join(root, 'test', 'package')
/** Everything that a tarball may hold, and must. */
const packed = [
  ...['LICENSE', 'README.md', 'package.json'],
  ...['index.cjs', 'index.d.cts', 'index.d.ts', 'index.js'].map((name) => `dist/${name}`),
]

prepare()
const { dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
for (const name of ['index.js', 'index.cjs']) {
  assert.deepEqual(
    importedBy(join(root, 'dist', name)),
    Object.keys(dependencies).sort(),
    `dependencies of ${name}`,
  )
}
const folder = mkdtempSync(join(tmpdir(), 'package-'))
try {
  const [{ filename, files }] = JSON.parse(npm(root, 'pack', '--json', '--pack-destination', folder))
  assert.deepEqual(files.map(({ path }) => path).sort(), packed.sort())

  writeFileSync(join(folder, 'package.json'), '{ "private": true }')
  npm(folder, 'install', '--ignore-scripts', '--no-audit', '--no-fund', '--prefer-offline', `./${filename}`)

  // The types first, without `skipLibCheck`: what they import must be there too. Then what the compiler wrote runs.
  for (const name of ['consumer.mts', 'consumer.cts']) cpSync(join(consumers, name), join(folder, name))
  node(
    join(root, 'node_modules', 'typescript', 'bin', 'tsc'),
    ...[
      '--strict',
      '--target',
      'es2022',
      '--module',
      'nodenext',
      '--types',
      'node',
      '--exactOptionalPropertyTypes',
    ],
    ...['consumer.mts', 'consumer.cts'],
  )
  for (const name of ['consumer.mjs', 'consumer.cjs']) node(name)
  console.log(`${filename} holds what it should, and works by import and by require, with types`)
} finally {
  rmSync(folder, { recursive: true })
}

/** The packages that a file loads, now or later. */
function importedBy(path) {
  const names = [...readFileSync(path, 'utf8').matchAll(/(?:from |require\(|import\()"([^".]+)"/g)]
  return [...new Set(names.map(([, name]) => name))].filter((name) => !name.startsWith('node:')).sort()
}

/** Runs a script in the folder; one that does not end by itself fails. */
function node(...words) {
  execFileSync(execPath, words, { cwd: folder, stdio: ['ignore', 'inherit', 'inherit'], timeout: 60_000 })
}

function npm(cwd, ...words) {
  return execFileSync('npm', words, { cwd, stdio: ['ignore', 'pipe', 'inherit'], encoding: 'utf8' })
}
