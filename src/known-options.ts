import { closest } from 'fastest-levenshtein'
import { OptionsError } from './errors.ts'

/** Says that there is no option of this name, and which one was probably meant. `path`: its groups first. */
export function describeUnknown(path: readonly PropertyKey[], known: readonly string[]): string {
  const nearest = closest(String(path.at(-1)), known)
  return `Expected an option that exists, got \`${path.join('.')}\`: did you mean \`${nearest}\`?`
}

/**
 * Looks for names that are no options: a misspelt one would silently mean its default, and a ring setting's other
 * owners than everywhere else.
 * @throws OptionsError with the nearest known name, or when there are no options at all
 */
export function requireKnown(options: object, known: readonly string[]): void {
  if (typeof options !== 'object' || options === null)
    throw new OptionsError(`Expected \`options\` to be an object with options, got ${String(options)}`)
  const unknown = Object.keys(options).find((name) => !known.includes(name))
  if (unknown !== undefined) throw new OptionsError(describeUnknown([unknown], known))
}
