import type { Steps } from '../steps.ts'
import type { RingMember } from './members.ts'
import { Points } from './points.ts'

/** Points copied, and points put in between, in one step. */
const COPIED = 32_768
const ADDED = 2_048

/** Shorter runs of points are quicker copied one by one. */
const SHORT_RUN = 16

/** The points of `old` under their new numbers (those numbered -1 are left out), and `fresh`, in one order. */
export function* mergePoints(
  old: Points,
  renumber: Int32Array,
  fresh: Points,
  members: readonly RingMember[],
): Steps<Points> {
  const size = members.reduce((sum, { virtualNodes }) => sum + virtualNodes, 0)
  const merged = new Merged(old, renumber, new Points(size, members.length))
  for (let next = 0; next < fresh.size; next += 1) {
    const place = merged.placeOf(fresh, next)
    while (!merged.copyUpTo(place)) yield
    merged.add(fresh, next)
    if (next % ADDED === ADDED - 1) yield
  }
  while (!merged.copyUpTo(old.size)) yield
  return merged.points
}

/** Points that are being copied from an older ring, in order, with others put in between. */
class Merged {
  readonly points: Points
  readonly #old: Points
  readonly #renumber: Int32Array
  readonly #leaving: boolean
  readonly #sameNumbers: boolean
  /** How many points of the old ring are done with, and how many of the new one are there. */
  #done = 0
  #end = 0

  constructor(old: Points, renumber: Int32Array, points: Points) {
    this.#old = old
    this.#renumber = renumber
    this.points = points
    this.#leaving = renumber.includes(-1)
    this.#sameNumbers = renumber.every((number, index) => number === index)
  }

  /** How many points of the old ring go before this one. */
  placeOf(fresh: Points, index: number): number {
    const high = fresh.high[index] as number
    const low = fresh.low[index] as number
    let place = this.#old.firstFrom(high, low)
    // Of equal positions the smaller member comes first, by the new numbers; those that leave are in nobody's way.
    while (
      place < this.#old.size &&
      this.#old.high[place] === high &&
      this.#old.low[place] === low &&
      this.#newNumber(place) < (fresh.member[index] as number)
    ) {
      place += 1
    }
    return place
  }

  add(fresh: Points, index: number): void {
    this.points.copy(this.#end++, fresh, index)
  }

  /**
   * Copies the points of the old ring up to this one (exclusive), but for those that leave. Not all at once: returns
   * whether it is there.
   */
  copyUpTo(end: number): boolean {
    const stop = Math.min(end, this.#done + COPIED)
    while (this.#done < stop) {
      const start = this.#done
      this.#done = this.#leaving ? this.#endOfRun(start, stop) : stop
      this.#copyRun(start, this.#done)
      while (this.#done < stop && this.#newNumber(this.#done) < 0) this.#done += 1
    }
    return this.#done === end
  }

  /** Where the points end that stay, from `start` on. */
  #endOfRun(start: number, stop: number): number {
    let end = start
    while (end < stop && this.#newNumber(end) >= 0) end += 1
    return end
  }

  #newNumber(point: number): number {
    return this.#renumber[this.#old.member[point] as number] as number
  }

  #copyRun(start: number, end: number): void {
    const { high, low, member } = this.points
    const old = this.#old
    const target = this.#end
    const isShort = end - start < SHORT_RUN
    for (let point = start; isShort && point < end; point += 1) {
      high[target + point - start] = old.high[point] as number
      low[target + point - start] = old.low[point] as number
    }
    if (!isShort) {
      high.set(old.high.subarray(start, end), target)
      low.set(old.low.subarray(start, end), target)
    }
    if (this.#sameNumbers && !isShort) member.set(old.member.subarray(start, end), target)
    else
      for (let point = start; point < end; point += 1) member[target + point - start] = this.#newNumber(point)
    this.#end += end - start
  }
}
