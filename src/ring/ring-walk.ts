/** What a walk needs of a ring. */
interface Circle {
  readonly members: { readonly length: number }
  /** Number of points. */
  readonly size: number
  firstPoint(position: bigint): number
  memberAt(point: number): number
}

/**
 * Walks a ring clockwise over *distinct* members, allocating nothing. Made once for a ring and started anew for
 * each key: one walk belongs to one synchronous user, and a second `start` ends the first.
 */
export class RingWalk {
  readonly #ring: Circle
  readonly #members: number
  /** The walk that last met each member. Doubles, since a count of walks in 32 bits wraps within days. */
  readonly #met: Float64Array
  #walk = 0
  #left = 0
  #point = 0

  constructor(ring: Circle) {
    this.#ring = ring
    this.#members = ring.members.length
    this.#met = new Float64Array(this.#members)
  }

  /** Goes to the first point at or after `position`. */
  start(position: bigint): void {
    this.#point = this.#ring.firstPoint(position)
    this.#left = this.#members
    this.#walk += 1
  }

  /** Index of the next member not met since `start`, or -1 when all were. Ends, since each member has a point. */
  next(): number {
    if (this.#left === 0) return -1
    let member: number
    do {
      member = this.#ring.memberAt(this.#point)
      this.#point = this.#point + 1 < this.#ring.size ? this.#point + 1 : 0
    } while (this.#met[member] === this.#walk)
    this.#met[member] = this.#walk
    this.#left -= 1
    return member
  }
}
