import type { Steps } from '../steps.ts'
import { Points } from './points.ts'

/** Points moved in one step. */
const STEP = 8_192

/** Points whose memory is touched for the first time in one step. */
const TOUCHED = 16_384

/**
 * Sorts in linear time: positions are uniform, so a count by their top bits puts each point within a place or two
 * of its own, and insertion does the rest.
 */
export function* sortPoints(points: Points, members: number): Steps<Points> {
  const { size } = points
  const bits = Math.max(1, 31 - Math.clz32(size))
  const shift = 32 - bits
  const ends = new Uint32Array(2 ** bits)
  for (let start = 0; start < size; start += STEP) {
    count(points.high.subarray(start, start + STEP), shift, ends)
    yield
  }
  let end = 0
  for (let bucket = 0; bucket < ends.length; bucket += 1) {
    end += ends[bucket] as number
    ends[bucket] = end
    if (bucket % STEP === 0) yield
  }
  const sorted = yield* Points.create(size, members)
  // Points are put here and there: that would have the system find all of the memory within the first step.
  for (let start = 0; start < size; start += TOUCHED) {
    sorted.clear(start, start + TOUCHED)
    yield
  }
  for (let start = 0; start < size; start += STEP) {
    scatter(points, [start, Math.min(size, start + STEP)], shift, ends, sorted)
    yield
  }
  for (let start = 0; start < size; start += STEP) {
    insert(sorted, [start, Math.min(size, start + STEP)])
    yield
  }
  return sorted
}

function count(high: Uint32Array, shift: number, counts: Uint32Array): void {
  for (let index = 0; index < high.length; index += 1) {
    const bucket = (high[index] as number) >>> shift
    counts[bucket] = (counts[bucket] as number) + 1
  }
}

/** Moves the points from `start` to `end` into their buckets; `ends` has where the free part of each bucket ends. */
function scatter(
  points: Points,
  [start, end]: readonly [number, number],
  shift: number,
  ends: Uint32Array,
  sorted: Points,
): void {
  for (let index = start; index < end; index += 1) {
    const bucket = (points.high[index] as number) >>> shift
    const place = (ends[bucket] as number) - 1
    ends[bucket] = place
    sorted.copy(place, points, index)
  }
}

/** Moves each of the points from `start` to `end` down to its place among those before it. */
function insert(points: Points, [start, end]: readonly [number, number]): void {
  for (let index = start; index < end; index += 1) {
    const high = points.high[index] as number
    const low = points.low[index] as number
    const member = points.member[index] as number
    let place = index
    while (place > 0 && !points.precedes(place - 1, high, low, member)) points.copy(place, points, --place)
    if (place < index) points.set(place, high, low, member)
  }
}
