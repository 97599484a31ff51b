import type { Steps } from '../steps.ts'

/** Points of a bucket in the mean. At 2 bytes a bucket this is 1 byte a point, and a search looks at few points. */
export const BUCKET_POINTS = 2

/** Points looked at in one step. */
const STEP = 32_768

/** Buckets for each unit of the high half of a position: multiplied with it and cut off, the bucket that it lies in. */
export const bucketScale = (points: number): number => points / BUCKET_POINTS / 2 ** 32

/**
 * Where each of `points / 2` equal parts of the circle, the buckets, has its first point: bucket `b` at
 * `2b + offsets[b]`. Positions are uniform, so the offsets are small: of n points one lies beyond 5√n with a chance
 * below 10^-20, and 16 bits hold that up to 40 million points. Undefined where they do not, as for points of a layout
 * that are not uniform.
 */
export function* indexPoints(high: Uint32Array): Steps<Int16Array | undefined> {
  const scale = bucketScale(high.length)
  const offsets = new Int16Array(Math.ceil(high.length / BUCKET_POINTS))
  let bucket = 0
  for (let point = 0; point <= high.length; point += 1) {
    if (point % STEP === STEP - 1) yield
    // Behind the last point begin the buckets that none is in, up to the last bucket.
    const last = point < high.length ? Math.floor((high[point] as number) * scale) : offsets.length - 1
    for (; bucket <= last; bucket += 1) {
      offsets[bucket] = point - BUCKET_POINTS * bucket
      if (offsets[bucket] !== point - BUCKET_POINTS * bucket) return undefined
    }
  }
  return offsets
}
