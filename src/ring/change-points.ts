import type { Steps } from '../steps.ts'
import type { Layout } from './layout.ts'
import type { RingMember } from './members.ts'
import { mergePoints } from './merge-points.ts'
import { Points } from './points.ts'
import { sortPoints } from './sort-points.ts'

/** Points hashed in one step: about a quarter of a millisecond. */
const STEP = 1_024

/**
 * The points of `members`, given those of an earlier set. Only members that are new, or have another number of
 * points, are hashed and sorted; the points of the others are merged in as they stand. Both sets are sorted by
 * id, so renumbering the members keeps the order of their points.
 */
export function* changePoints(
  points: Points,
  before: readonly RingMember[],
  members: readonly RingMember[],
  layout: Layout,
): Steps<Points> {
  const { renumber, joining } = compare(before, members)
  const fresh = yield* freshPoints(members, joining, layout)
  const changed =
    joining.length === members.length ? fresh : yield* mergePoints(points, renumber, fresh, members)
  yield* changed.index()
  return changed
}

/** The new number of each member that keeps its points, -1 for the others; and the numbers of those to be hashed. */
function compare(before: readonly RingMember[], members: readonly RingMember[]) {
  const renumber = new Int32Array(before.length).fill(-1)
  const joining: number[] = []
  let old = 0
  members.forEach(({ id, virtualNodes }, number) => {
    while (old < before.length && (before[old] as RingMember).id < id) old += 1
    const known = before[old]
    if (known?.id === id && known.virtualNodes === virtualNodes) renumber[old] = number
    else joining.push(number)
  })
  return { renumber, joining }
}

function* freshPoints(
  members: readonly RingMember[],
  joining: readonly number[],
  layout: Layout,
): Steps<Points> {
  const size = joining.reduce((sum, number) => sum + (members[number]?.virtualNodes ?? 0), 0)
  const points = yield* Points.create(size, members.length)
  const position = new DataView(new ArrayBuffer(8))
  let end = 0
  let pause = STEP
  for (const number of joining) {
    const { id, virtualNodes } = members[number] as RingMember
    for (const point of layout.points(id, virtualNodes)) {
      position.setBigUint64(0, point)
      points.set(end++, position.getUint32(0), position.getUint32(4), number)
    }
    if (end < pause) continue
    pause = end + STEP
    yield
  }
  return yield* sortPoints(points, members.length)
}
