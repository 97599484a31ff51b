import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { optionsSchema } from '../../src/config.ts'
import { optionGroup } from '../../src/option-issues.ts'

const page = readFileSync(new URL('../../README.md', import.meta.url), 'utf8')
const table = /<!-- options -->\n([\s\S]*)<!-- \/options -->/.exec(page)?.[1] ?? ''
const rows = [...table.matchAll(/^\| `([\w.]+)` \| (.+?) \| (.+) \|$/gm)].map(
  ([, option = '', value = '']) => [option, value],
)

/** Defaults that are objects, which the table can only name. */
const named = new Map([
  ['logger', 'silent'],
  ['clock', "the system's"],
])

/** Every option's path with its default as the table writes it. */
function documented(schema: unknown, path: string): [string, string][] {
  const group = optionGroup(schema)
  const own: [string, string][] = group && !mayBeFalse(schema) ? [] : [[path, defaultOf(schema, path)]]
  const inner = Object.entries(group?.shape ?? {}).flatMap(([name, field]) =>
    documented(field, `${path}.${name}`),
  )
  return path === '' ? inner.map(([name, value]) => [name.slice(1), value]) : [...own, ...inner]
}

function mayBeFalse(schema: unknown): boolean {
  return schema instanceof z.ZodType && schema.safeParse(false).success
}

function defaultOf(schema: unknown, path: string): string {
  const parsed = schema instanceof z.ZodType ? schema.safeParse(undefined) : undefined
  if (!parsed?.success) return 'required'
  if (optionGroup(schema)) return parsed.data === false ? '`false`' : 'on'
  if (parsed.data === undefined) return 'none'
  return named.get(path.slice(1)) ?? `\`${literal(parsed.data)}\``
}

function literal(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(literal).join(', ')}]`
  return typeof value === 'string' ? `'${value}'` : String(value)
}

test('README.md lists every option with its default, in order, and nothing else', () => {
  expect(rows).toEqual(documented(optionsSchema, ''))
  expect(rows.length).toBeGreaterThan(60)
})
