import { inspect } from 'node:util'
import { closest } from 'fastest-levenshtein'
import { OptionsError } from '../errors.ts'
import { body } from './body-source.ts'
import { chain, composite } from './combine.ts'
import { cookie, header, ip, param, path, pathSegment, query } from './head-sources.ts'
import type { KeySource } from './key-source.ts'
import { unescapeArgument } from './string-form.ts'

/**
 * Reads a source's string form.
 *
 *     chain     = composite *( "," composite )            the first that has a key
 *     composite = single *( "+" single )                  all of them together
 *     single    = "(" chain ")" / "header:" name / "cookie:" name / "query:" name / "path" / "path:" position
 *               / "param:" name / "ip" / "body:" pointer [ ":first=" characters ] [ ":limit=" bytes ]
 *
 * Spaces around a source do not count. In a name or pointer the characters `,` `+` `:` `(` `)` `%` and
 * whitespace are written percent-encoded (`query:a%2Cb`).
 * @throws OptionsError when the text is none of these; an unknown kind is answered with the nearest known one
 */
export function parseKey(text: string): KeySource {
  const alternatives = splitOutsideBrackets(text, ',').map((alternative) => {
    const parts = splitOutsideBrackets(alternative, '+').map(parseSingle)
    return parts.length > 1 ? composite(parts) : parts
  })
  return chain(alternatives.flat())
}

type Build = (argument: string | undefined, options: readonly string[], text: string) => KeySource

const kinds: ReadonlyMap<string, Build> = new Map<string, Build>([
  ['header', named('header', header)],
  ['cookie', named('cookie', cookie)],
  ['query', named('query', query)],
  ['param', named('param', param)],
  ['path', parsePath],
  ['ip', parseIp],
  ['body', parseBody],
])

function parseSingle(padded: string): KeySource {
  const text = padded.trim()
  if (text.startsWith('(') && text.endsWith(')')) return parseKey(text.slice(1, -1))
  if (/[()]/.test(text)) throw malformed('brackets around whole sources only (%28 and %29 in a name)', text)
  const [kind = '', ...rest] = text.split(':')
  const build = kinds.get(kind)
  if (!build) {
    const known = [...kinds.keys()]
    const nearest = closest(kind, known)
    throw malformed(`a kind out of ${known.join(', ')} (did you mean ${nearest}?)`, text)
  }
  const [argument, ...options] = rest.map((escaped) => decode(escaped, text))
  return build(argument, options, text)
}

function named(kind: string, build: (name: string) => KeySource): Build {
  return (name, options, text) => {
    if (!name || options.length > 0) throw malformed(`the form ${kind}:<name> (%3A for a colon)`, text)
    return build(name)
  }
}

function parsePath(position: string | undefined, options: readonly string[], text: string): KeySource {
  if (position === undefined) return path()
  if (options.length > 0 || !/^[1-9]\d*$/.test(position)) {
    throw malformed('the form path or path:<position from 1>', text)
  }
  return pathSegment(Number(position))
}

function parseIp(argument: string | undefined, _options: readonly string[], text: string): KeySource {
  if (argument !== undefined) throw malformed('the form ip', text)
  return ip()
}

function parseBody(pointer: string | undefined, options: readonly string[], text: string): KeySource {
  const found = /^(?::first=(\d+))?(?::limit=(\d+))?$/.exec(options.map((option) => `:${option}`).join(''))
  if (pointer === undefined || !found) {
    throw malformed(
      'the form body:<JSON pointer>[:first=<characters>][:limit=<bytes>] (%3A for a colon)',
      text,
    )
  }
  const [firstCharacters, limit] = found.slice(1).map((digits) => (digits ? Number(digits) : undefined))
  return body(pointer, { firstCharacters, limit })
}

function decode(escaped: string, text: string): string {
  const argument = unescapeArgument(escaped)
  if (argument === undefined) throw malformed('%25 for a percent sign in a name', text)
  return argument
}

function splitOutsideBrackets(text: string, separator: ',' | '+'): string[] {
  const parts = ['']
  let depth = 0
  for (const character of text) {
    if (character === '(') depth++
    if (character === ')' && --depth < 0) break
    if (character === separator && depth === 0) parts.push('')
    else parts[parts.length - 1] += character
  }
  if (depth !== 0) throw malformed('as many closing as opening brackets', text)
  return parts
}

function malformed(expected: string, text: string): OptionsError {
  return new OptionsError(`Expected \`key\` to be a source with ${expected}, got ${inspect(text)}`)
}
