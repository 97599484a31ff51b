import { RefusedEntryError } from '../errors.ts'
import { sortedById } from './content.ts'
import { isRecord, show } from './fields.ts'
import { parseUpstream } from './parse-upstream.ts'
import type { Upstream } from './topology.ts'
import type { HostFilter } from './upstream-url.ts'

export interface RefusedInput {
  /** Where it stands: `upstreams[3]`. */
  readonly entry: string
  /** The entry as JSON. */
  readonly text: string
  readonly error: RefusedEntryError
}

/**
 * Reads a list of upstreams, refusing bad entries one by one. A bad entry that says whose it is keeps the
 * upstream of that id in `lastGood`; of two entries with one id the earlier stays.
 */
export function parseList(
  inputs: readonly unknown[],
  mayHaveHost: HostFilter,
  lastGood: readonly Upstream[] = [],
): { upstreams: readonly Upstream[]; refused: readonly RefusedInput[] } {
  const found = new Map<string, Upstream>()
  const refused: RefusedInput[] = []
  const held: Upstream[] = []
  for (const [index, input] of inputs.entries()) {
    try {
      const upstream = parseUpstream(input, { mayHaveHost })
      if (found.has(upstream.id)) throw duplicate(upstream.id)
      found.set(upstream.id, upstream)
    } catch (error) {
      if (!(error instanceof RefusedEntryError)) throw error
      refused.push({ entry: `upstreams[${index}]`, text: JSON.stringify(input), error })
      const last = isRecord(input) ? lastGood.find(({ id }) => id === input.id) : undefined
      if (last) held.push(last)
    }
  }
  for (const upstream of held) {
    if (!found.has(upstream.id)) found.set(upstream.id, upstream)
  }
  return { upstreams: sortedById(found.values()), refused }
}

const duplicate = (id: string) =>
  new RefusedEntryError('duplicate', `id: expected an id of its own, got ${show(id)} again`)
