import type { Steps } from '../steps.ts'

/** Points of a bucket in the mean. At 2 bytes a bucket this is 1 byte a point, and a search looks at few points. */
export const BUCKET_POINTS = 2

/** Points looked at in one step. */
const STEP = 32_768

/** Buckets for each unit of the high half of a position: multiplied with it and cut off, the bucket that it lies in. */
export const bucketScale = (points: number): number => points / BUCKET_POINTS / 2 ** 32

/** An offset that none has: nothing is known of the bucket. */
const UNKNOWN = -(2 ** 15)

/**
 * Where each of `points / 2` equal parts of the circle, the buckets, has its first point: bucket `b` at
 * `2b + offsets[b]`. Positions are uniform, so the offsets are small: of n points one lies beyond 5√n with a chance
 * below 10^-20, and 16 bits hold that up to 40 million points. Undefined where they do not, as for points of a layout
 * that are not uniform.
 */
export function* indexPoints(high: Uint32Array): Steps<Int16Array | undefined> {
  const offsets = new Int16Array(Math.ceil(high.length / BUCKET_POINTS)).fill(UNKNOWN)
  for (let end = high.length; end > 0; end -= STEP) {
    if (!noteFirstPoints(high, [Math.max(0, end - STEP), end], offsets)) return undefined
    yield
  }
  // A bucket that no point is in begins where the one behind it does, the last ones behind the last point.
  let first = high.length
  for (let bucket = offsets.length - 1; bucket >= 0; bucket -= 1) {
    const offset = offsets[bucket] as number
    if (offset !== UNKNOWN) first = BUCKET_POINTS * bucket + offset
    else if (!fits(first - BUCKET_POINTS * bucket)) return undefined
    else offsets[bucket] = first - BUCKET_POINTS * bucket
  }
  return offsets
}

/**
 * Notes the points from `start` to `end` backwards, each as its bucket's first: the first one stays. Without a branch
 * that would be guessed wrong every other time. Returns whether all offsets fit.
 */
function noteFirstPoints(
  high: Uint32Array,
  [start, end]: readonly [number, number],
  offsets: Int16Array,
): boolean {
  const scale = bucketScale(high.length)
  let doFit = true
  for (let point = end - 1; point >= start; point -= 1) {
    const bucket = Math.floor((high[point] as number) * scale)
    const offset = point - BUCKET_POINTS * bucket
    offsets[bucket] = offset
    doFit = doFit && fits(offset)
  }
  return doFit
}

const fits = (offset: number) => offset > UNKNOWN && offset < -UNKNOWN
