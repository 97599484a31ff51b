import type { HashRing } from '../ring/hash-ring.ts'
import { RingWalk } from '../ring/ring-walk.ts'
import type { Topology } from '../topology/topology.ts'
import type { RegisteredUpstream } from './registered-upstream.ts'

/** One topology with the ring built from it: what a request chooses on. Swapped as a whole, never changed. */
export class Placement {
  readonly topology: Topology
  readonly ring: HashRing
  /** The upstreams on the ring, in the order of the ring's members. */
  readonly members: readonly RegisteredUpstream[]
  /** For the one synchronous walk that may be under way. */
  readonly walk: RingWalk

  constructor(topology: Topology, ring: HashRing, members: readonly RegisteredUpstream[]) {
    this.topology = topology
    this.ring = ring
    this.members = members
    this.walk = new RingWalk(ring)
  }

  /** Whether `other` comes after this one in the source's order. */
  isOlderThan(other: Placement): boolean {
    return (
      this.topology.epoch < other.topology.epoch ||
      (this.topology.epoch === other.topology.epoch && this.topology.revision < other.topology.revision)
    )
  }
}
