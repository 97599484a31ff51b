import { compilePointer } from './json-pointer.ts'
import type { KeySource } from './key-source.ts'
import { makeSource, requirePositiveInteger, unexpected } from './source.ts'
import { escapeArgument } from './string-form.ts'

export interface BodyKeyOptions {
  /** Bytes of body to wait for; a longer body has no key. @default 65536 */
  readonly limit?: number | undefined
  /** Take only so many characters (code points) of the field: the shared prefix of LLM prompts. @default all */
  readonly firstCharacters?: number | undefined
}

/** DESIGN: key-body buffer 64 KiB. */
const defaultLimit = 65_536

/**
 * A field of the JSON body by its RFC 6901 pointer, `body:/user/id`, `body:/prompt:first=256`,
 * `body:/prompt:first=256:limit=1048576`. Strings count as they are, numbers and booleans as JavaScript writes
 * them (an integer above 2^53 is rounded: send such ids as strings); objects, arrays and null are missing.
 * An upgrade has no body, so this does not work there.
 * @throws OptionsError when the pointer or an option is not as described
 */
export function body(pointer: string, options: BodyKeyOptions = {}): KeySource {
  const find = typeof pointer === 'string' ? compilePointer(pointer) : undefined
  if (!find) throw unexpected('body', 'an RFC 6901 JSON pointer such as /user/id', pointer)
  const { limit = defaultLimit, firstCharacters, ...others } = options
  const [other] = Object.keys(others)
  if (other !== undefined) throw unexpected('body', 'the options limit and firstCharacters only', other)
  requirePositiveInteger('body', 'limit in bytes', limit)
  if (firstCharacters !== undefined) requirePositiveInteger('body', 'firstCharacters', firstCharacters)
  const first = firstCharacters === undefined ? '' : `:first=${firstCharacters}`
  return makeSource({
    description: `body:${escapeArgument(pointer)}${first}${limit === defaultLimit ? '' : `:limit=${limit}`}`,
    bodyLimit: limit,
    worksForUpgrade: false,
    read(_request, facts) {
      const text = scalarText(find(facts.jsonBody()))
      return text === undefined || firstCharacters === undefined ? text : codePoints(text, firstCharacters)
    },
  })
}

function scalarText(value: unknown): string | undefined {
  if (typeof value === 'string') return value
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : undefined
}

/** The first `count` code points: a cut between surrogates would make different characters equal. */
function codePoints(text: string, count: number): string {
  let end = 0
  for (let taken = 0; taken < count && end < text.length; taken++) {
    end += (text.codePointAt(end) ?? 0) > 0xffff ? 2 : 1
  }
  return text.slice(0, end)
}
