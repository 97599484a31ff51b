import { OptionsError, RefusedEntryError } from '../errors.ts'
import { buildUpstream, type EntryRules } from './decode.ts'
import { isRecord, refusedField } from './fields.ts'
import type { Upstream, UpstreamState } from './topology.ts'

/**
 * An upstream as people write it: an object, or a string `url`, `id=url`, `url*weight` or `id=url*weight`
 * (a URL with a `*` in its path needs the object). Without an id it is `host:port` of the URL, the port
 * always written out.
 */
export type UpstreamInput = string | UpstreamFields

export interface UpstreamFields {
  readonly id?: string
  readonly url: string
  readonly weight?: number
  readonly state?: UpstreamState
  readonly zone?: string
  readonly metadata?: Readonly<Record<string, unknown>>
}

/** Reads one upstream as people write it. Throws RefusedEntryError. */
export function parseUpstream(input: unknown, rules: EntryRules): Upstream {
  if (typeof input === 'string') return buildUpstream(fieldsOf(input), rules)
  if (isRecord(input)) return buildUpstream(input, rules)
  throw refusedField('field', 'upstream', 'an object or a string such as "id=http://host:port*weight"', input)
}

/** `parseUpstream` for options: throws OptionsError, naming the option. */
export function upstreamOption(option: string, input: unknown, rules: EntryRules): Upstream {
  try {
    return parseUpstream(input, rules)
  } catch (error) {
    if (error instanceof RefusedEntryError) throw new OptionsError(`${option}: ${error.message}`)
    throw error
  }
}

function fieldsOf(text: string): Record<string, unknown> {
  const star = text.lastIndexOf('*')
  const target = star === -1 ? text : text.slice(0, star)
  const weight = star === -1 ? {} : { weight: weightOf(text.slice(star + 1)) }
  // An id may hold anything but `=`, a URL's path may hold `=`: only what stands before the scheme is an id.
  const equals = /^https?:\/\//i.test(target) ? -1 : target.indexOf('=')
  if (equals === -1) return { url: target, ...weight }
  return { id: target.slice(0, equals), url: target.slice(equals + 1), ...weight }
}

/** Not `Number(text)` alone: that reads '' as 0 and '0x10' as 16. What is no decimal is shown as it came. */
const weightOf = (text: string) => (/^\d+(\.\d+)?$/.test(text) ? Number(text) : text)
