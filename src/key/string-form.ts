/** What the string form gives a meaning to (`,` `+` `:` `(` `)` `%`) or trims away. */
const reserved = /[%,+:()\s]/gu

/** Writes a name so that it can stand in a string form: reserved characters percent-encoded. */
export function escapeArgument(text: string): string {
  return text.replace(reserved, (character) =>
    // encodeURIComponent leaves parentheses as they are.
    character === '(' ? '%28' : character === ')' ? '%29' : encodeURIComponent(character),
  )
}

/** Reads what `escapeArgument` wrote, or undefined when a percent sign does not begin an encoded character. */
export function unescapeArgument(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}
