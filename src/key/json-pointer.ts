/**
 * Compiles an RFC 6901 pointer (`/user/id`; `''` is the whole document), or gives undefined when it is not one.
 * The compiled form takes a parsed document and gives the value there, or undefined. Only a document's own
 * members count, so that `/constructor` or `/__proto__` find what the client sent and nothing else.
 */
export function compilePointer(pointer: string): ((document: unknown) => unknown) | undefined {
  if (!/^(?:\/(?:[^~/]|~[01])*)*$/.test(pointer)) return undefined
  const tokens = pointer
    .split('/')
    .slice(1)
    // §4: `~1` first, so that `~01` becomes `~1` and not `/`.
    .map((escaped) => escaped.replaceAll('~1', '/').replaceAll('~0', '~'))
  return (document) => tokens.reduce(member, document)
}

/** §4: an array is indexed by digits without a leading zero. */
const arrayIndex = /^(?:0|[1-9]\d*)$/

function member(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
  if (Array.isArray(value) && !arrayIndex.test(name)) return undefined
  return Reflect.get(value, name)
}
