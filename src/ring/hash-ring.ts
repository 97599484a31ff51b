import { finish, type Steps } from '../steps.ts'
import { changePoints } from './change-points.ts'
import { placementDigest } from './digest.ts'
import { hashTag } from './hash-tag.ts'
import { type Layout, nativeLayout } from './layout.ts'
import { type RingMember, type RingMemberInput, ringMembers } from './members.ts'
import { Points } from './points.ts'
import { type HashRingOptions, type ResolvedRingOptions, resolveRingOptions } from './ring-options.ts'
import { RingWalk } from './ring-walk.ts'
import { memberShares } from './shares.ts'

/** Where the halves of a 64-bit number lie in memory: in another order on big-endian machines. */
const [LOW, HIGH] = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1 ? [0, 1] : [1, 0]

/**
 * A consistent-hash ring with virtual nodes (Karger et al., STOC 1997). Immutable; the same members and options
 * give the same owners in every process and release, whatever the order and history.
 *
 * Members are known by their index in `members`, points by their index in clockwise order; -1 is neither.
 */
export class HashRing {
  readonly #options: ResolvedRingOptions
  readonly #layout: Layout
  readonly #wide = new BigUint64Array(1)
  readonly #halves = new Uint32Array(this.#wide.buffer)
  #members: readonly RingMember[]
  #points: Points
  #digest: string | undefined
  #shares: Float64Array | undefined
  #walk: RingWalk | undefined

  /**
   * Throws `OptionsError` for an unknown option or one out of bounds, an empty or repeated id, a weight that is not above 0 and at
   * most 100, or too many virtual nodes in all.
   */
  constructor(members: Iterable<RingMemberInput>, options: HashRingOptions = {}) {
    this.#options = resolveRingOptions(options)
    this.#layout = nativeLayout(this.#options)
    this.#members = finish(ringMembers(members, this.#layout))
    this.#points = finish(changePoints(finish(Points.create(0, 0)), [], this.#members, this.#layout))
  }

  /** The options with defaults filled in. A getter, so that printing a ring does not show a secret seed. */
  get options(): ResolvedRingOptions {
    return this.#options
  }

  /** The members, sorted by id in code-unit order. */
  get members(): readonly RingMember[] {
    return this.#members
  }

  /** Number of points. */
  get size(): number {
    return this.#points.size
  }

  /** 16 hex digits: rings with an equal digest give every key the same owners. */
  get digest(): string {
    this.#digest ??= finish(placementDigest(this.#layout.name, this.#options, this.#members))
    return this.#digest
  }

  /** Computes the digest and the shares, step by step: of many members they take milliseconds. Known from then on. */
  *prepareInSteps(): Steps<void> {
    this.#digest ??= yield* placementDigest(this.#layout.name, this.#options, this.#members)
    this.#shares ??= yield* memberShares(this.#points, this.#members.length)
  }

  /** Share of the circle, in [0, 1], that the member at this index owns: exact, not sampled. */
  share(member: number): number {
    this.#shares ??= finish(memberShares(this.#points, this.#members.length))
    return this.#shares[member] ?? 0
  }

  /** Every member's share by its id. */
  shares(): Map<string, number> {
    return new Map(this.#members.map(({ id }, index) => [id, this.share(index)]))
  }

  /** Where on the circle a key lies, its hash tag taken into account. Throws `TypeError` for what is no string. */
  position(key: string): bigint {
    // Not made a string: 7 and '7' would be one key here and two in whatever else keeps them.
    if (typeof key !== 'string') throw new TypeError(`Expected a key to be a string, got a ${typeof key}`)
    return this.#layout.position(this.#options.hashTags ? hashTag(key) : key)
  }

  /** Index of the first point at or after a position, going round past the last; -1 on an empty ring. */
  firstPoint(position: bigint): number {
    const { size } = this.#points
    this.#wide[0] = position
    const point = this.#points.firstFrom(this.#halves[HIGH] as number, this.#halves[LOW] as number)
    if (point < size) return point
    return size === 0 ? -1 : 0
  }

  /** Index of the member that a point belongs to, or -1 when there is no such point. */
  memberAt(point: number): number {
    return this.#points.member[point] ?? -1
  }

  /** Id of the key's owner, or undefined on an empty ring. */
  owner(key: string): string | undefined {
    return this.#members[this.memberAt(this.firstPoint(this.position(key)))]?.id
  }

  /** Ids of the key's first `count` owners in clockwise order, all distinct; fewer when the ring has fewer. */
  owners(key: string, count: number): string[] {
    this.#walk ??= new RingWalk(this)
    this.#walk.start(this.position(key))
    const owners: string[] = []
    while (owners.length < count) {
      const owner = this.#members[this.#walk.next()]
      if (owner === undefined) break
      owners.push(owner.id)
    }
    return owners
  }

  /**
   * The ring of other members under the same options, equal to one built from nothing but in the time of the
   * change: what stays is not hashed again. The same members give this ring itself. Throws as the constructor does.
   */
  with(members: Iterable<RingMemberInput>): HashRing {
    return finish(this.withInSteps(members))
  }

  /**
   * The same, step by step: of many members it may take a second, in which an event loop has other things to do. Each
   * step takes well below a millisecond, unless one upstream alone has more than some thousand points.
   */
  *withInSteps(members: Iterable<RingMemberInput>): Steps<HashRing> {
    const next = yield* ringMembers(members, this.#layout)
    if (sameMembers(this.#members, next)) return this
    const ring = new HashRing([], this.#options)
    ring.#members = next
    ring.#points = yield* changePoints(this.#points, this.#members, next, this.#layout)
    return ring
  }
}

function sameMembers(left: readonly RingMember[], right: readonly RingMember[]): boolean {
  return (
    left.length === right.length &&
    left.every(({ id, weight }, index) => id === right[index]?.id && weight === right[index]?.weight)
  )
}
