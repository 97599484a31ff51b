import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import ts from 'typescript'
import { expect, test } from 'vitest'

const root = new URL('../../', import.meta.url).pathname
const pages = ['', 'docs/', 'docs/decisions/'].flatMap((folder) =>
  readdirSync(root + folder)
    .filter((name) => name.endsWith('.md'))
    .map((name) => ({ path: folder + name, text: readFileSync(root + folder + name, 'utf8') })),
)

test('every file and folder that a document names is there', () => {
  const missing = pages.flatMap(({ path, text }) => {
    const links = [...text.matchAll(/\]\(([^)#]+)\)/g)].map(([, link = '']) => join(dirname(path), link))
    const tests = [...text.matchAll(/\btest\/[\w./-]*\w/g)].map(([name]) => name)
    return [...links, ...tests].filter((name) => !existsSync(root + name)).map((name) => `${path}: ${name}`)
  })
  expect(missing).toEqual([])
})

test('every program in the README compiles as it stands', () => {
  const text = pages.find(({ path }) => path === 'README.md')?.text ?? ''
  const programs = new Map(
    [...text.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, program = ''], index) => [
      `${root}readme-${index}.ts`,
      program,
    ]),
  )
  expect(programs.size).toBe(2)
  const { config } = ts.readConfigFile(`${root}tsconfig.json`, ts.sys.readFile)
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root)
  const host = ts.createCompilerHost(options)
  const { fileExists, readFile } = host
  host.fileExists = (path) => programs.has(path) || fileExists(path)
  host.readFile = (path) => programs.get(path) ?? readFile(path)
  const program = ts.createProgram([...programs.keys()], options, host)
  const mistakes = [...programs.keys()].flatMap((path) =>
    ts.getPreEmitDiagnostics(program, program.getSourceFile(path)),
  )
  expect(mistakes.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'))).toEqual([])
})
