import type { Balancer } from '../balancer/balancer.ts'
import type { Lease } from '../balancer/lease.ts'
import type { Placement } from '../balancer/placement.ts'
import type { Clock } from '../clock.ts'
import type { ProxyEventEmitter, StaleSign } from '../observe/events.ts'
import type { TopologyFeed } from '../topology/topology.ts'

/** Where the topology comes from, as far as it is asked for again. */
export type RefreshableFeed = Pick<TopologyFeed, 'status' | 'refresh'>

/** At most one re-read in so many milliseconds, however many signs there are. */
const intervalMs = 1_000
/** How long a request waits for a re-read; a read on loopback takes about 3 ms. */
const longestWaitMs = 250
/** How long an upstream is not believed after a re-read did not confirm what it said. */
const disbeliefMs = 30_000

/**
 * Reads the topology again when an upstream shows that ours may be stale: once for all requests that wait, not too
 * often, and not for an upstream that has cried wolf.
 */
export class TopologyRefresher {
  readonly #feed: RefreshableFeed
  readonly #balancer: Balancer
  readonly #events: ProxyEventEmitter
  readonly #clock: Clock
  readonly #disbelievedUntil = new Map<string, number>()
  #running: Promise<void> | undefined
  #next: Promise<void> | undefined
  #earliest = Number.NEGATIVE_INFINITY

  constructor(feed: RefreshableFeed, balancer: Balancer, events: ProxyEventEmitter, clock: Clock) {
    this.#feed = feed
    this.#balancer = balancer
    this.#events = events
    this.#clock = clock
  }

  /**
   * Follows up a sign that the placement of `lease` is stale. Resolves, never later than 250 ms, with whether a newer
   * one is in use by then. `revision`: one that the upstream has seen and we have not; it is on its way to us.
   */
  async followUp(lease: Lease, sign: StaleSign, revision?: bigint): Promise<boolean> {
    const upstream = lease.spec.id
    if (this.#isNewerThan(lease.placement, revision)) return true
    if (!this.#believes(upstream) || this.#feed.status.state !== 'live') return false
    const joined = this.#running
    const read = joined ?? this.#start()
    if (read) {
      const followed = read.then(
        () => {
          const confirmed = this.#isNewerThan(lease.placement)
          // A read that had begun before the sign came may have missed what the upstream knows.
          if (!confirmed && !joined) this.#disbelieve(upstream)
          this.#events.emit('staleTopology', { upstream, sign, confirmed })
        },
        () => {}, // the source is away: that says nothing about the upstream
      )
      await this.#waitAtMost(longestWaitMs, followed)
    } else if (revision !== undefined) {
      await this.#waitForWatch(lease.placement, revision)
    }
    return this.#isNewerThan(lease.placement)
  }

  /** The read that runs from now on; undefined when the last one began too short a time ago. */
  #start(): Promise<void> | undefined {
    const now = this.#clock.now()
    if (now < this.#earliest) return undefined
    this.#earliest = now + intervalMs
    this.#running = this.#feed.refresh().finally(() => {
      this.#running = undefined
    })
    return this.#running
  }

  /** Whether what is in use is newer than `placement`, and not older than `revision`. */
  #isNewerThan(placement: Placement, revision = 0n): boolean {
    const current = this.#balancer.placement
    if (!current || !placement.isOlderThan(current)) return false
    return current.topology.revision >= revision || current.topology.epoch !== placement.topology.epoch
  }

  /** Too soon after the last read for another one: the watch will bring the revision. */
  async #waitForWatch(placement: Placement, revision: bigint): Promise<void> {
    const deadline = this.#clock.now() + longestWaitMs
    while (!this.#isNewerThan(placement, revision)) {
      const left = deadline - this.#clock.now()
      if (left <= 0) return
      await this.#waitAtMost(left, this.#nextTopology())
    }
  }

  /** One promise for all that wait, renewed with each topology. */
  #nextTopology(): Promise<void> {
    this.#next ??= new Promise((resolve) => {
      this.#events.once('topology', () => {
        this.#next = undefined
        resolve()
      })
    })
    return this.#next
  }

  #believes(upstream: string): boolean {
    return this.#clock.now() >= (this.#disbelievedUntil.get(upstream) ?? Number.NEGATIVE_INFINITY)
  }

  #disbelieve(upstream: string): void {
    const now = this.#clock.now()
    for (const [id, until] of this.#disbelievedUntil) if (until <= now) this.#disbelievedUntil.delete(id)
    this.#disbelievedUntil.set(upstream, now + disbeliefMs)
  }

  #waitAtMost(milliseconds: number, work: Promise<void>): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.#clock.setTimeout(resolve, milliseconds)
      work.then(() => {
        timer.cancel()
        resolve()
      })
    })
  }
}
