import type { Steps } from '../steps.ts'
import type { RingMember } from './members.ts'
import { Points } from './points.ts'

/** Points copied in one step; one that is put in between costs as much as so many. */
const STEP = 32_768
const COST_OF_ADDING = 16

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
  const merged = new Merged(old, renumber, yield* Points.create(size, members.length))
  let left = STEP
  for (let next = 0; next <= fresh.size; next += 1) {
    const place = next < fresh.size ? merged.placeOf(fresh, next) : old.size
    while (merged.done < place) {
      left -= merged.copyUpTo(Math.min(place, merged.done + left))
      if (left > 0) continue
      yield
      left = STEP
    }
    if (next < fresh.size) merged.add(fresh, next)
    left -= Math.min(left - 1, COST_OF_ADDING)
  }
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

  /** How many points of the old ring are done with. */
  get done(): number {
    return this.#done
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

  /** Copies the points of the old ring up to this one (exclusive), but for those that leave. Returns how many it passed. */
  copyUpTo(end: number): number {
    const from = this.#done
    while (this.#done < end) {
      const start = this.#done
      this.#done = this.#leaving ? this.#endOfRun(start, end) : end
      this.#copyRun(start, this.#done)
      while (this.#done < end && this.#newNumber(this.#done) < 0) this.#done += 1
    }
    return this.#done - from
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
