import type { Steps } from '../steps.ts'
import { lowerBound } from './lower-bound.ts'
import { BUCKET_POINTS, bucketScale, indexPoints } from './point-index.ts'

/** From so many members on, their numbers take 4 bytes. */
const MANY_MEMBERS = 65_536

/** From so many points on, getting the memory for an array is a step of its own. */
const LARGE = 100_000

/**
 * The points of a ring in parallel arrays: the halves of the position, and the index of the member it belongs to; with
 * the index of the positions 11 bytes each. With 65,536 members and more the points alone have 12, and no index.
 */
export class Points {
  readonly high: Uint32Array
  readonly low: Uint32Array
  readonly member: Uint16Array | Uint32Array
  /** Where searches begin; undefined before `index`, and where there is none. */
  offsets: Int16Array | undefined
  readonly #bucketScale: number

  private constructor(high: Uint32Array, low: Uint32Array, member: Uint16Array | Uint32Array) {
    this.high = high
    this.low = low
    this.member = member
    this.#bucketScale = bucketScale(high.length)
  }

  /** So many points, all still to be set. */
  static *create(size: number, members: number): Steps<Points> {
    const high = new Uint32Array(unsetBytes(4 * size))
    if (size >= LARGE) yield
    const low = new Uint32Array(unsetBytes(4 * size))
    if (size >= LARGE) yield
    return new Points(
      high,
      low,
      members < MANY_MEMBERS ? new Uint16Array(unsetBytes(2 * size)) : new Uint32Array(unsetBytes(4 * size)),
    )
  }

  get size(): number {
    return this.high.length
  }

  set(index: number, high: number, low: number, member: number): void {
    this.high[index] = high
    this.low[index] = low
    this.member[index] = member
  }

  /** Sets the points from `start` to `end` to nothing. */
  clear(start: number, end: number): void {
    for (const array of [this.high, this.low, this.member]) array.fill(0, start, end)
  }

  copy(index: number, from: Points, fromIndex: number): void {
    this.set(
      index,
      from.high[fromIndex] as number,
      from.low[fromIndex] as number,
      from.member[fromIndex] as number,
    )
  }

  /** Makes searches fast, once all points are set and in order. */
  *index(): Steps<void> {
    if (this.size > 0 && this.member instanceof Uint16Array) this.offsets = yield* indexPoints(this.high)
  }

  /** Whether the point at `index` goes before the given one. Of equal positions the smaller member comes first. */
  precedes(index: number, high: number, low: number, member: number): boolean {
    if (this.high[index] !== high) return (this.high[index] as number) < high
    if (this.low[index] !== low) return (this.low[index] as number) < low
    return (this.member[index] as number) < member
  }

  /** Index of the first point at or after a position given by its halves; the number of points when all are before it. */
  firstFrom(wantedHigh: number, wantedLow: number): number {
    const { high, low, offsets } = this
    if (offsets === undefined) return lowerBound(high, low, wantedHigh, wantedLow)
    const size = high.length
    const bucket = Math.floor(wantedHigh * this.#bucketScale)
    let point = BUCKET_POINTS * bucket + (offsets[bucket] as number)
    // The first two without a branch that would be guessed wrong every other time: 1 for a point that is certainly
    // before the wanted one. Half of a high half, since a difference of 31 bits has its sign in the top bit.
    if (point + 1 < size) {
      const wanted = wantedHigh >>> 1
      const first = ((high[point] as number) >>> 1) - wanted
      const second = ((high[point + 1] as number) >>> 1) - wanted
      point += (first >>> 31) + (second >>> 31)
    }
    while (point < size && this.#isBefore(point, wantedHigh, wantedLow)) point += 1
    return point
  }

  #isBefore(index: number, wantedHigh: number, wantedLow: number): boolean {
    const high = this.high[index] as number
    return high < wantedHigh || (high === wantedHigh && (this.low[index] as number) < wantedLow)
  }
}

/** Memory as it is: of a large array the zeroing alone would take milliseconds at once, and every point gets set. */
function unsetBytes(length: number): ArrayBuffer {
  return Buffer.allocUnsafeSlow(length).buffer
}
