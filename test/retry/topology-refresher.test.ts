import { expect, it } from 'vitest'
import { TopologyRefresher } from '../../src/retry/topology-refresher.ts'
import type { SourceStatus, TopologyFeed } from '../../src/topology/topology.ts'
import { BalancerUnderTest } from '../balancer/set-up.ts'

/** A source whose re-reads end when the test says so. */
class SlowFeed implements TopologyFeed {
  status: SourceStatus = { state: 'live' }
  reads = 0
  #end: { resolve: () => void; reject: (error: Error) => void } | undefined

  refresh(): Promise<void> {
    this.reads += 1
    return new Promise((resolve, reject) => {
      this.#end = { resolve, reject }
    })
  }

  async close(): Promise<void> {}

  /** Ends the read under way, and lets everybody who waits for it go on. */
  async end(error?: Error): Promise<void> {
    if (error) this.#end?.reject(error)
    else this.#end?.resolve()
    await settled()
  }
}

const settled = () => new Promise((resolve) => setImmediate(resolve))

function setUp() {
  const test = new BalancerUnderTest().update('a', 'b', 'c')
  const feed = new SlowFeed()
  const refresher = new TopologyRefresher(feed, test.balancer, test.events, test.clock)
  const followed: unknown[] = []
  test.events.on('staleTopology', (event) => followed.push(event))
  const lease = (id: string) => test.lease(test.positionOf(id))
  return { test, feed, refresher, followed, lease, clock: test.clock }
}

it('requests that wait share one read, and go on when it has brought something newer', async () => {
  const { test, feed, refresher, followed, lease } = setUp()
  const waiting = ['a', 'a', 'b', 'c'].map((id) => refresher.followUp(lease(id), 'connect'))
  expect(feed.reads).toBe(1)
  test.update('a', 'b')
  await feed.end()
  expect(await Promise.all(waiting)).toEqual([true, true, true, true])
  expect(followed).toHaveLength(4)
  expect(followed[0]).toEqual({ upstream: 'a', sign: 'connect', confirmed: true })
})

it('a placement that is older than the one in use needs no read', async () => {
  const { test, feed, refresher, lease } = setUp()
  const old = lease('a')
  test.update('a', 'b')
  expect(await refresher.followUp(old, 'misdirected')).toBe(true)
  expect(feed.reads).toBe(0)
})

it('at most one read a second', async () => {
  const { feed, refresher, lease, clock } = setUp()
  const first = refresher.followUp(lease('a'), 'connect')
  clock.advance(20)
  await feed.end()
  await first
  clock.advance(979)
  expect(await refresher.followUp(lease('b'), 'connect')).toBe(false)
  expect(feed.reads).toBe(1)
  clock.advance(1)
  void refresher.followUp(lease('b'), 'connect')
  expect(feed.reads).toBe(2)
})

it('nobody waits longer than 250 ms', async () => {
  const { feed, refresher, lease, clock } = setUp()
  let done = false
  const waiting = refresher.followUp(lease('a'), 'connect').finally(() => {
    done = true
  })
  clock.advance(249)
  await settled()
  expect(done).toBe(false)
  clock.advance(1)
  expect(await waiting).toBe(false)
  await feed.end()
  expect(clock.pendingTimers).toBe(0)
})

it('an upstream whose sign was not confirmed is not believed for 30 s; the others are', async () => {
  const { feed, refresher, followed, lease, clock } = setUp()
  const first = refresher.followUp(lease('a'), 'misdirected')
  await feed.end()
  expect(await first).toBe(false)
  expect(followed).toEqual([{ upstream: 'a', sign: 'misdirected', confirmed: false }])
  clock.advance(29_999)
  expect(await refresher.followUp(lease('a'), 'misdirected')).toBe(false)
  expect(feed.reads).toBe(1)
  void refresher.followUp(lease('b'), 'misdirected')
  expect(feed.reads).toBe(2)
  await feed.end()
  clock.advance(1_000)
  void refresher.followUp(lease('a'), 'misdirected')
  expect(feed.reads).toBe(3)
})

it('a read that had begun before a sign does not disprove it', async () => {
  const { feed, refresher, lease, clock } = setUp()
  void refresher.followUp(lease('a'), 'connect')
  const joined = refresher.followUp(lease('b'), 'misdirected')
  await feed.end()
  expect(await joined).toBe(false)
  clock.advance(1_000)
  void refresher.followUp(lease('b'), 'misdirected')
  expect(feed.reads).toBe(2)
})

it('a read that failed says nothing about the upstream, and no read is asked of a source that is away', async () => {
  const { feed, refresher, followed, lease, clock } = setUp()
  const first = refresher.followUp(lease('a'), 'connect')
  await feed.end(new Error('expected by the test'))
  expect(await first).toBe(false)
  expect(followed).toEqual([])
  clock.advance(1_000)
  feed.status = { state: 'lost', error: 'expected by the test' }
  expect(await refresher.followUp(lease('a'), 'connect')).toBe(false)
  expect(feed.reads).toBe(1)
  feed.status = { state: 'live' }
  void refresher.followUp(lease('a'), 'connect')
  expect(feed.reads).toBe(2)
})

it('too soon for a read, a request waits for the watch to bring the revision that an upstream has seen', async () => {
  const { test, feed, refresher, lease, clock } = setUp()
  const first = refresher.followUp(lease('a'), 'connect')
  await feed.end()
  await first
  const waiting = refresher.followUp(lease('b'), 'misdirected', 3n)
  test.update('a', 'b') // revision 2
  await settled()
  test.update('b') // revision 3
  expect(await waiting).toBe(true)
  const late = refresher.followUp(lease('b'), 'misdirected', 9n)
  clock.advance(250)
  expect(await late).toBe(false)
  expect(feed.reads).toBe(1)
})
