import type { KeySource } from './key-source.ts'
import { makeSource, unexpected } from './source.ts'

/**
 * The first source that has a key, `header:x-user-id,cookie:sid,ip`. The key does not tell which one it was:
 * a user known by header today and by cookie tomorrow stays at one upstream.
 * @throws OptionsError when there is no source
 */
export function chain(sources: readonly KeySource[]): KeySource {
  const [first, ...others] = sources
  if (!first) throw unexpected('chain', 'at least one source', sources)
  if (others.length === 0) return first
  return makeSource({
    description: sources.map((source) => source.description).join(','),
    bodyLimit: largestLimit(sources),
    headerNames: sources.flatMap((source) => source.headerNames),
    worksForUpgrade: sources.some((source) => source.worksForUpgrade),
    read(request, facts) {
      for (const source of sources) {
        const key = source.extract(request, facts)
        if (key !== undefined) return key
      }
      return undefined
    },
  })
}

/**
 * All sources together, `header:x-tenant+cookie:sid`; when one has no key the whole key is missing, since half
 * a key would gather unrelated requests at one upstream. Each part is written with its length before it
 * (`2:ab1:c`), so ('ab', 'c') and ('a', 'bc') differ.
 * @throws OptionsError when there are fewer than two sources
 */
export function composite(sources: readonly KeySource[]): KeySource {
  if (sources.length < 2) throw unexpected('composite', 'at least two sources', sources)
  return makeSource({
    description: sources.map(({ description }) => grouped(description)).join('+'),
    bodyLimit: largestLimit(sources),
    headerNames: sources.flatMap((source) => source.headerNames),
    worksForUpgrade: sources.every((source) => source.worksForUpgrade),
    read(request, facts) {
      let key = ''
      for (const source of sources) {
        const part = source.extract(request, facts)
        if (part === undefined) return undefined
        key += `${part.length}:${part}`
      }
      return key
    },
  })
}

/** A chain or composite inside a composite needs brackets; a name has no bare `,` or `+`. */
function grouped(description: string): string {
  return /[,+]/.test(description) ? `(${description})` : description
}

function largestLimit(sources: readonly KeySource[]): number {
  return Math.max(...sources.map((source) => source.bodyLimit))
}
