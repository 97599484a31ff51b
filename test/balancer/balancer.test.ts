import { describe, expect, it } from 'vitest'
import { Lease } from '../../src/balancer/lease.ts'
import { BalancerUnderTest, spec } from './set-up.ts'

const tight = { boundedLoad: { factor: 1.25, floor: 0 }, slowStart: false } as const
const times = <T>(length: number, make: (_: unknown, index: number) => T) => Array.from({ length }, make)

describe('bounded load', () => {
  it('envoyproxy/envoy#12529: 30 of one key at factor 1.25 leave at most 13 on each of three, in ring order', () => {
    const test = new BalancerUnderTest(tight).update('a', 'b', 'c')
    const overflows = test.heard('overflow')
    const position = test.positionOf('b')
    const order = test.order(position)
    const taken = times(30, () => test.lease(position).spec.id)
    const load = order.map((id) => test.inFlight()[id])
    expect(load).toEqual([13, 13, 4])
    expect(taken[0]).toBe('b')
    expect(overflows).toHaveLength(17)
    expect(overflows[0]).toEqual({ upstream: order[1], owner: 'b', rank: 2 })
    expect(overflows).toContainEqual({ upstream: order[2], owner: 'b', rank: 3 })
  })

  it('a floor of 8 keeps 8 of one key on their owner', () => {
    const test = new BalancerUnderTest({ slowStart: false }).update('a', 'b', 'c')
    const position = test.positionOf('a')
    expect(new Set(times(8, () => test.lease(position).spec.id))).toEqual(new Set(['a']))
    expect(test.lease(position).spec.id).not.toBe('a')
  })

  it('zalando/skipper#2460, #4139: A full and B ejected, 100 keys of A: all on C, none on B', () => {
    const test = new BalancerUnderTest({ slowStart: false }).update('a', 'b', 'c')
    test.fell('b')
    times(8, () => test.lease(test.positionOf('a')))
    const overflows = test.heard('overflow')
    const ring = test.balancer.placement?.ring
    const keys = times(1_000, (_, index) => `user-${index}`).filter((key) => ring?.owner(key) === 'a')
    const orders = new Set(keys.map((key) => ring?.owners(key, 3).join()))
    expect(orders).toEqual(new Set(['a,b,c', 'a,c,b']))
    for (const key of keys.slice(0, 100)) {
      const lease = test.lease(ring?.position(key) ?? 0n)
      expect(lease.spec.id).toBe('c')
      lease.release()
    }
    expect(overflows).toHaveLength(100)
    expect(test.inFlight()).toEqual({ a: 8, b: 0, c: 0 })
  })

  it('reject: a full owner refuses, its keys go nowhere else', () => {
    const test = new BalancerUnderTest({ boundedLoad: { factor: 1, floor: 2, overflow: 'reject' } })
    test.update('a', 'b')
    const leases = times(2, () => test.lease(test.positionOf('a')))
    expect(test.choose(test.positionOf('a'))).toEqual({ reason: 'full', retryAfterMs: 1_000 })
    const again = { position: test.positionOf('a'), tried: [], longLived: false }
    const [first, second] = leases
    first?.release()
    test.lease(test.positionOf('a'))
    expect(second && test.balancer.chooseAgain(second, again)).toMatchObject({ reason: 'full' })
    expect(test.inFlight()).toEqual({ a: 2, b: 0 })
  })

  it('false: the owner takes everything', () => {
    const test = new BalancerUnderTest({ boundedLoad: false }).update('a', 'b')
    const position = test.positionOf('a')
    expect(new Set(times(500, () => test.lease(position).spec.id))).toEqual(new Set(['a']))
    expect(test.balancer.capacityOf(test.upstream('a'))).toBeUndefined()
  })

  it('a single upstream refuses nothing', () => {
    const test = new BalancerUnderTest(tight).update('a')
    times(500, () => test.lease(0n))
    test.fell('a', 'connect')
    expect(test.balancer.panic).toBe(true)
    expect(test.lease(0n).spec.id).toBe('a')
  })

  it('only a retry goes beyond the capacities: to the least loaded it has not tried, in proportion to weight', () => {
    const test = new BalancerUnderTest({ ...tight, boundedLoad: { factor: 1, floor: 0 } })
    test.update('a', spec('b', { weight: 4 }), 'c')
    const beyond = test.heard('overCapacity')
    const tried = [test.upstream('a').spec]
    times(60, () => test.lease(test.positionOf('b'), { tried }))
    // Factor 1 leaves no room but for the share of the one that was tried: the other two take it 4 : 1.
    expect(test.inFlight()).toEqual({ a: 0, b: 48, c: 12 })
    expect(beyond.length).toBeGreaterThan(0)
    expect(beyond).toContainEqual({ upstream: 'b' })
    expect(beyond).toContainEqual({ upstream: 'c' })
  })

  it('long-lived requests have a limit of their own, which no retry passes, and are no part of the load', () => {
    const test = new BalancerUnderTest({ ...tight, limits: { longLivedPerUpstream: 2 } }).update('a', 'b')
    const position = test.positionOf('a')
    const leases = times(4, () => test.lease(position, { longLived: true }))
    expect(leases.map(({ spec }) => spec.id)).toEqual(['a', 'a', 'b', 'b'])
    const retry = { position, tried: [spec('b')], longLived: true }
    expect(test.choose(position, retry)).toMatchObject({ reason: 'full' })
    expect(leases[0] && test.balancer.chooseAgain(leases[0], retry)).toMatchObject({ reason: 'full' })
    expect(test.inFlight()).toEqual({ a: 0, b: 0 })
    expect(test.lease(position).spec.id).toBe('a')
    leases[0]?.release()
    expect(test.lease(position, { longLived: true }).spec.id).toBe('a')
  })
})

describe('topology changes', () => {
  it('apache/dubbo#4103: an upstream that leaves with requests in flight ends at exactly 0', () => {
    const test = new BalancerUnderTest(tight).update('a', 'b')
    const leases = times(5, () => test.lease(test.positionOf('a')))
    const { inFlight } = test.balancer.registry
    test.update('b')
    expect(test.balancer.registry.inFlight).toBe(inFlight)
    for (const lease of leases) {
      lease.release()
      lease.release()
    }
    expect(test.balancer.registry.inFlight).toBe(0)
    expect(test.balancer.capacityOf(test.upstream('b'))).toBe(2) // ceil(1.25 × (0 + 1)): no load is left
  })

  it('whoever stays keeps its load and its breaker: moved, draining and back, or gone and back while busy', () => {
    const test = new BalancerUnderTest().update('a', 'b', 'c')
    const lease = test.lease(test.positionOf('a'))
    test.fell('a')
    const known = test.upstream('a')
    for (const changed of [
      spec('a', { url: 'http://moved.test:81' }),
      spec('a', { state: 'draining' }),
      spec('a'),
    ]) {
      test.update(changed, 'b', 'c')
      expect(test.upstream('a')).toBe(known)
      expect(known.breaker.state()).toBe('open')
    }
    test.update('b', 'c').update('b').update('a', 'b')
    expect(test.upstream('a')).toBe(known)
    expect(known.inFlight).toBe(1)
    lease.release()
    test.update('b').update('b').update('a', 'b')
    expect(test.upstream('a')).not.toBe(known)
    expect(test.upstream('a').breaker.state()).toBe('closed')
  })

  it('an upstream that returns is healthy until a check says otherwise', () => {
    const test = new BalancerUnderTest().update('a', 'b')
    test.lease(test.positionOf('a'))
    test.balancer.setHealthy('a', false)
    expect(test.lease(test.positionOf('a')).spec.id).toBe('b')
    test.update('b').update('a', 'b')
    expect(test.lease(test.positionOf('a')).spec.id).toBe('a')
  })

  it('a lease keeps the upstream as it was described; one that moved was not tried', () => {
    const test = new BalancerUnderTest().update('a')
    const lease = test.lease(0n)
    test.update(spec('a', { url: 'http://moved.test:81' }))
    expect(lease.spec.url).toBe('http://a.test:80')
    expect(test.lease(0n, { tried: [lease.spec] }).spec.url).toBe('http://moved.test:81')
    expect(test.choose(0n, { tried: [test.upstream('a').spec] })).toMatchObject({ reason: 'all-tried' })
  })

  it('draining and warming upstreams are off the ring; none left: no upstream, with a time to come back', () => {
    const test = new BalancerUnderTest()
    expect(test.choose(0n)).toEqual({ reason: 'no-topology', retryAfterMs: 1_000 })
    test.update(spec('a', { state: 'draining' }), spec('b', { state: 'warming' }))
    expect(test.choose(0n)).toEqual({ reason: 'none-eligible', retryAfterMs: 1_000 })
    expect(test.balancer.capacityOf(test.upstream('a'))).toBeUndefined()
  })

  it('a full ring refuses the same upstreams whatever came first, and says so once', () => {
    const options = { ring: { virtualNodes: 100 }, limits: { ringPoints: 200 } }
    const one = new BalancerUnderTest(options)
    const refused = one.heard('refused')
    one.update('b', 'c').update('a', 'b', 'c').update('a', 'b', 'c', 'd')
    const other = new BalancerUnderTest(options).update('a', 'b', 'c', 'd')
    expect(one.balancer.placement?.ring.digest).toBe(other.balancer.placement?.ring.digest)
    expect(one.balancer.placement?.members.map(({ id }) => id)).toEqual(['a', 'b'])
    expect(refused).toMatchObject([
      { entry: 'c', reason: 'limit' },
      { entry: 'd', reason: 'limit' },
    ])
    expect(one.balancer.beyondRingLimit).toBe(true)
    one.update('a', 'b')
    expect(one.balancer.beyondRingLimit).toBe(false)
    one.update('a', 'b', 'c')
    expect(refused).toHaveLength(3)
  })
})

describe('slow start', () => {
  const capacities = (test: BalancerUnderTest, ...ids: string[]) =>
    ids.map((id) => test.balancer.capacityOf(test.upstream(id)))
  const options = { boundedLoad: { factor: 1, floor: 100 }, slowStart: { durationMs: 10_000 } }

  it('ramps the capacity of a new upstream, linear from a tenth, and of no other', () => {
    const test = new BalancerUnderTest(options).update('a')
    expect(capacities(test, 'a')).toEqual([100])
    test.update('a', 'b')
    const steps = [0, 1_000, 4_000, 5_000].map((wait) => {
      test.clock.advance(wait)
      return capacities(test, 'a', 'b')
    })
    // floor × w / mean w: 2 × 100 in all, shared 10 : 1, 10 : 1, 2 : 1 and 1 : 1
    expect(steps).toEqual([
      [182, 19],
      [182, 19],
      [134, 67],
      [100, 100],
    ])
  })

  it('ramps one whose breaker has closed again, and one that is no longer warming', () => {
    const test = new BalancerUnderTest(options).update('a', 'b', spec('c', { state: 'warming' }))
    test.fell('a', 'connect')
    test.clock.advance(5_000)
    test.lease(test.positionOf('a')).succeeded()
    expect(capacities(test, 'a', 'b')).toEqual([19, 182])
    test.clock.advance(10_000)
    expect(capacities(test, 'a', 'b')).toEqual([100, 100])
    test.update('a', 'b', 'c')
    expect(capacities(test, 'a', 'c')).toEqual([143, 15])
  })

  it('does not ramp the first snapshot, nor one that was draining', () => {
    const test = new BalancerUnderTest(options).update('a', spec('b', { state: 'draining' }))
    test.update('a', 'b')
    expect(capacities(test, 'a', 'b')).toEqual([100, 100])
  })
})

it('a lease is released once, and only the first result of it counts', () => {
  const test = new BalancerUnderTest({ circuitBreaker: { consecutiveFailures: 1 } }).update('a', 'b')
  const lease = test.lease(test.positionOf('a'))
  lease.succeeded()
  lease.failed('reset', 1n)
  expect(test.upstream('a').breaker.state()).toBe('closed')
  lease.release()
  lease.release()
  expect(test.inFlight()).toEqual({ a: 0, b: 0 })
  expect(lease).toBeInstanceOf(Lease)
})
