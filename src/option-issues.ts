import { z } from 'zod'
import { describeUnknown } from './known-options.ts'

type Issue = z.core.$ZodIssue

/** Options whose value may be a secret, and messages are logged. */
const secrets: ReadonlySet<string> = new Set(['ring.seed', 'upstreamTls.key'])

/** Says what is wrong with the options: which one, what was expected and what was given. */
export function describeIssue(issue: Issue, schema: z.ZodType, options: unknown): string {
  if (issue.code === 'unrecognized_keys') {
    const known = knownNames(schema, issue.path)
    return issue.keys.map((name) => describeUnknown([...issue.path, name], known)).join('; ')
  }
  const meant = issue.code === 'invalid_union' ? meantBranch(issue) : undefined
  if (meant) return describeIssue(meant, schema, options)
  const option = issue.path.join('.')
  const value = valueAt(options, issue.path)
  const given = secrets.has(option) && value !== undefined ? `another ${typeof value}` : show(value)
  return `Expected \`${option || 'options'}\` to be ${expectation(issue)}, got ${given}`
}

/** The branch that got furthest is the one that was meant: `boundedLoad: { factor: 0 }` is no `false`. */
function meantBranch({ errors, path }: Issue & { code: 'invalid_union' }): Issue | undefined {
  const meant = errors.flat().find((inner) => inner.path.length > 0 || inner.code === 'unrecognized_keys')
  return meant && { ...meant, path: [...path, ...meant.path] }
}

/** What was expected, so that it can stand behind "to be". */
function expectation(issue: Issue): string {
  switch (issue.code) {
    case 'invalid_union':
      return [...new Set(issue.errors.flatMap(([first]) => (first ? expectation(first) : [])))].join(' or ')
    case 'invalid_type':
      return typeNames.get(issue.expected) ?? issue.expected
    case 'invalid_value':
      return issue.values.map(show).join(' or ')
    case 'too_small':
      return issue.origin === 'int' || issue.origin === 'number' || issue.origin === 'bigint'
        ? `at least ${issue.minimum}`
        : issue.message
    case 'too_big':
      return `at most ${issue.maximum}`
    default:
      return issue.message
  }
}

const typeNames: ReadonlyMap<string, string> = new Map([
  ['number', 'a finite number'],
  ['int', 'a whole number'],
  ['bigint', 'a bigint'],
  ['string', 'a string'],
  ['boolean', 'true or false'],
  ['array', 'a list'],
  ['object', 'an object with options'],
  ['Buffer', 'a Buffer'],
])

function knownNames(schema: z.ZodType, path: readonly PropertyKey[]): string[] {
  const group = path.reduce<unknown>((within, name) => {
    const parent = optionGroup(within)
    return parent?.shape[String(name)]
  }, schema)
  return Object.keys(optionGroup(group)?.shape ?? {})
}

/** The options inside a schema that is a group of them, may be left out, or may be `false`; else undefined. */
export function optionGroup(schema: unknown): z.ZodObject | undefined {
  if (schema instanceof z.ZodObject) return schema
  if (schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault || schema instanceof z.ZodReadonly)
    return optionGroup(schema.unwrap())
  if (schema instanceof z.ZodUnion) {
    for (const option of schema.options) {
      const group = optionGroup(option)
      if (group) return group
    }
  }
  return undefined
}

function valueAt(options: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (value, name) => (typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined),
    options,
  )
}

function show(value: unknown): string {
  if (typeof value === 'string') return `'${value.length > 80 ? `${value.slice(0, 80)}…` : value}'`
  if (typeof value === 'bigint') return `${value}n`
  if (typeof value === 'function') return 'a function'
  if (typeof value === 'object' && value !== null) return Array.isArray(value) ? 'a list' : 'an object'
  return String(value)
}
