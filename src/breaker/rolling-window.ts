/**
 * How much was counted in the last `windowMs`, kept in a ring of buckets: bounded memory, nothing allocated
 * after construction. The window slides by whole buckets, so it reaches back over the running bucket and the
 * full ones before it: between `windowMs - windowMs / buckets` and `windowMs`.
 *
 * The caller reads the clock once and hands the time in; it must not go back.
 */
export class RollingWindow {
  readonly #bucketMs: number
  readonly #counts: Uint32Array
  #total = 0
  /** Position in the ring of the running bucket, and which multiple of `bucketMs` it stands for. */
  #head = 0
  #tick = Number.NEGATIVE_INFINITY

  constructor(windowMs: number, buckets = 10) {
    this.#bucketMs = windowMs / buckets
    this.#counts = new Uint32Array(buckets)
  }

  /** Counts one at `now`. */
  add(now: number): void {
    this.#slideTo(now)
    this.#counts[this.#head] = (this.#counts[this.#head] ?? 0) + 1
    this.#total += 1
  }

  /** What was counted in the window that ends at `now`. */
  total(now: number): number {
    this.#slideTo(now)
    return this.#total
  }

  #slideTo(now: number): void {
    const tick = Math.floor(now / this.#bucketMs)
    if (tick === this.#tick) return
    // After a whole window of silence every bucket is stale, however long the silence was.
    let stale = Math.min(tick - this.#tick, this.#counts.length)
    for (; stale > 0; stale -= 1) {
      this.#head = (this.#head + 1) % this.#counts.length
      this.#total -= this.#counts[this.#head] ?? 0
      this.#counts[this.#head] = 0
    }
    this.#tick = tick
  }
}
