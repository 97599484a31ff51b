import { OptionsError } from '../errors.ts'
import type { Steps } from '../steps.ts'
import type { Layout } from './layout.ts'

/** An upstream as the ring is given it; a bare id has weight 1. */
export type RingMemberInput = string | { readonly id: string; readonly weight?: number | undefined }

/** An upstream on the ring. */
export interface RingMember {
  readonly id: string
  /** Share of the keys relative to the others. */
  readonly weight: number
  /** How many points it has. */
  readonly virtualNodes: number
}

const MAX_WEIGHT = 100

/** Members looked at in one step. */
const STEP = 256

/** Points of all upstreams together: 100 MB of ring, and some seconds to hash. */
export const MAX_POINTS = 8_000_000

/**
 * The members sorted by id in code-unit order, whatever order they came in. Throws `OptionsError` for an empty or
 * repeated id, a weight that is not above 0 and at most 100, and more than `MAX_POINTS` points.
 */
export function* ringMembers(
  inputs: Iterable<RingMemberInput>,
  layout: Layout,
): Steps<readonly RingMember[]> {
  if (typeof inputs !== 'object' || inputs === null) {
    throw new OptionsError(
      `Expected \`members\` to be a list of ids or { id, weight }, got \`${String(inputs)}\` (${typeof inputs})`,
    )
  }
  const members: RingMember[] = []
  for (const input of inputs) {
    members.push(ringMember(input, layout))
    if (members.length % STEP === 0) yield
  }
  members.sort((a, b) => (a.id < b.id ? -1 : 1))
  yield
  let points = 0
  let previous: string | undefined
  for (const { id, virtualNodes } of members) {
    if (id === previous)
      throw new OptionsError(`Expected every member to have an id of its own, got \`${id}\` twice`)
    previous = id
    points += virtualNodes
  }
  if (points > MAX_POINTS) {
    throw new OptionsError(`Expected at most ${MAX_POINTS} virtual nodes on the ring, got ${points}`)
  }
  return Object.freeze(members)
}

function ringMember(input: RingMemberInput, layout: Layout): RingMember {
  const { id, weight = 1 } = typeof input === 'string' ? { id: input } : input
  if (typeof id !== 'string' || id === '') {
    throw new OptionsError(`Expected the \`id\` of a member to be a non-empty string, got \`${String(id)}\``)
  }
  if (typeof weight !== 'number' || !(weight > 0 && weight <= MAX_WEIGHT)) {
    throw new OptionsError(
      `Expected the \`weight\` of member \`${id}\` to be above 0 and at most ${MAX_WEIGHT}, got \`${String(weight)}\``,
    )
  }
  return Object.freeze({ id, weight, virtualNodes: layout.virtualNodes(weight) })
}
