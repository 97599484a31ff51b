// Lets a child process run TypeScript as it stands here: `node --import test/support/typescript-loader.mjs file.ts`.
import { readFile } from 'node:fs/promises'
import { register } from 'node:module'
import { isMainThread } from 'node:worker_threads'

// Node loads this file twice: as what `--import` names, and as the hooks in their own thread.
if (isMainThread) register(import.meta.url)

export async function load(url, context, nextLoad) {
  if (!url.endsWith('.ts')) return nextLoad(url, context)
  // The compiler is no part of the process under test: it is loaded in the hooks' thread alone.
  const { default: ts } = await import('typescript')
  const text = await readFile(new URL(url), 'utf8')
  const compilerOptions = {
    target: ts.ScriptTarget.ES2023,
    module: ts.ModuleKind.ESNext,
    verbatimModuleSyntax: true,
  }
  return {
    format: 'module',
    shortCircuit: true,
    source: ts.transpileModule(text, { compilerOptions }).outputText,
  }
}
