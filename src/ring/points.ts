import type { Layout } from './layout.ts'
import type { RingMember } from './members.ts'

/**
 * The points of a ring in parallel arrays, 10 or 12 bytes each: the halves of the position, and the index of the
 * member it belongs to.
 */
export class Points {
  readonly high: Uint32Array
  readonly low: Uint32Array
  readonly member: Uint16Array | Uint32Array

  constructor(size: number, members: number) {
    this.high = new Uint32Array(size)
    this.low = new Uint32Array(size)
    this.member = members < 65_536 ? new Uint16Array(size) : new Uint32Array(size)
  }

  get size(): number {
    return this.high.length
  }

  set(index: number, high: number, low: number, member: number): void {
    this.high[index] = high
    this.low[index] = low
    this.member[index] = member
  }

  copy(index: number, from: Points, fromIndex: number): void {
    this.set(
      index,
      from.high[fromIndex] as number,
      from.low[fromIndex] as number,
      from.member[fromIndex] as number,
    )
  }

  /** Whether the point at `index` goes before the given one. Of equal positions the smaller member comes first. */
  precedes(index: number, high: number, low: number, member: number): boolean {
    if (this.high[index] !== high) return (this.high[index] as number) < high
    if (this.low[index] !== low) return (this.low[index] as number) < low
    return (this.member[index] as number) < member
  }
}

/**
 * The points of `members`, given those of an earlier set. Only members that are new, or have another number of
 * points, are hashed and sorted; the points of the others are merged in as they stand. Both sets are sorted by
 * id, so renumbering the members keeps the order of their points.
 */
export function changePoints(
  points: Points,
  before: readonly RingMember[],
  members: readonly RingMember[],
  layout: Layout,
): Points {
  const earlier = new Map(before.map(({ id }, index) => [id, index]))
  const renumber = new Int32Array(before.length).fill(-1)
  const joining: number[] = []
  members.forEach(({ id, virtualNodes }, index) => {
    const was = earlier.get(id)
    if (was !== undefined && before[was]?.virtualNodes === virtualNodes) renumber[was] = index
    else joining.push(index)
  })
  const fresh = freshPoints(members, joining, layout)
  return joining.length === members.length ? fresh : merge(points, renumber, fresh, members)
}

function freshPoints(members: readonly RingMember[], joining: readonly number[], layout: Layout): Points {
  const size = joining.reduce((sum, index) => sum + (members[index]?.virtualNodes ?? 0), 0)
  const points = new Points(size, members.length)
  const position = new DataView(new ArrayBuffer(8))
  let end = 0
  for (const index of joining) {
    const { id, virtualNodes } = members[index] as RingMember
    for (const point of layout.points(id, virtualNodes)) {
      position.setBigUint64(0, point)
      points.set(end++, position.getUint32(0), position.getUint32(4), index)
    }
  }
  return sort(points, members.length)
}

/**
 * Sorts in linear time: positions are uniform, so a count by their top bits puts each point within a place or two
 * of its own, and insertion does the rest.
 */
function sort(points: Points, members: number): Points {
  const { size, high } = points
  const bits = Math.max(1, 31 - Math.clz32(size))
  const shift = 32 - bits
  const ends = new Uint32Array(2 ** bits + 1)
  for (let index = 0; index < size; index++) {
    const bucket = (high[index] as number) >>> shift
    ends[bucket] = (ends[bucket] as number) + 1
  }
  for (let bucket = 1; bucket < ends.length; bucket++) {
    ends[bucket] = (ends[bucket] as number) + (ends[bucket - 1] as number)
  }
  const sorted = new Points(size, members)
  for (let index = 0; index < size; index++) {
    const bucket = (high[index] as number) >>> shift
    const place = (ends[bucket] as number) - 1
    ends[bucket] = place
    sorted.copy(place, points, index)
  }
  insertionSort(sorted)
  return sorted
}

function insertionSort(points: Points): void {
  const { size, high, low, member } = points
  for (let index = 1; index < size; index++) {
    const moved = [high[index] as number, low[index] as number, member[index] as number] as const
    let place = index
    while (place > 0 && !points.precedes(place - 1, ...moved)) points.copy(place, points, --place)
    points.set(place, ...moved)
  }
}

/** The points of `old` under their new numbers (those numbered -1 are left out), and `fresh`, in one order. */
function merge(old: Points, renumber: Int32Array, fresh: Points, members: readonly RingMember[]): Points {
  const size = members.reduce((sum, { virtualNodes }) => sum + virtualNodes, 0)
  const merged = new Points(size, members.length)
  let end = 0
  let next = 0
  for (let index = 0; index < old.size; index++) {
    const member = renumber[old.member[index] as number] as number
    if (member < 0) continue
    const high = old.high[index] as number
    const low = old.low[index] as number
    while (next < fresh.size && fresh.precedes(next, high, low, member)) merged.copy(end++, fresh, next++)
    merged.set(end++, high, low, member)
  }
  while (next < fresh.size) merged.copy(end++, fresh, next++)
  return merged
}
