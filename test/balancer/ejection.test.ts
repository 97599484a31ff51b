import { describe, expect, it } from 'vitest'
import { Lease } from '../../src/balancer/lease.ts'
import { BalancerUnderTest, spec } from './set-up.ts'

const twenty = Array.from({ length: 20 }, (_, index) => BigInt(index) << 59n)

describe('ejection', () => {
  it('envoyproxy/envoy#38815: of two upstreams one is down: all keys on the other, no panic, back after a good probe', () => {
    const test = new BalancerUnderTest().update('a', 'b')
    const [ejections, recoveries] = [test.heard('ejection'), test.heard('recovery')]
    test.fell('a')
    expect(ejections).toEqual([{ upstream: 'a', cause: 'answers' }])
    expect(test.balancer.panic).toBe(false)
    const all = () => new Set(twenty.map((position) => test.lease(position).spec.id))
    expect(all()).toEqual(new Set(['b']))
    test.clock.advance(5_000)
    const probe = test.lease(test.positionOf('a'))
    expect(probe.spec.id).toBe('a')
    expect(all()).toEqual(new Set(['b'])) // one probe at a time, and nobody waits for it
    probe.failed('timeout', 1n)
    probe.release()
    test.clock.advance(9_999)
    expect(all()).toEqual(new Set(['b']))
    test.clock.advance(1)
    const second = test.lease(test.positionOf('a'))
    second.responding()
    expect(recoveries).toEqual([{ upstream: 'a' }])
    expect(all()).toEqual(new Set(['a', 'b']))
  })

  it('an aborted probe gives its permit back', () => {
    const test = new BalancerUnderTest().update('a', 'b')
    test.fell('a')
    test.clock.advance(5_000)
    const position = test.positionOf('a')
    for (let round = 0; round < 3; round += 1) {
      const probe = test.lease(position)
      expect(probe.spec.id).toBe('a')
      probe.release()
    }
    expect(test.upstream('a').breaker.state()).toBe('half-open')
  })

  it('a single upstream is never ejected, and nobody is told that it was', () => {
    const test = new BalancerUnderTest().update('a')
    const ejections = test.heard('ejection')
    test.fell('a', 'connect')
    expect(test.upstream('a').standing).toBe('last')
    expect(ejections).toEqual([])
    test.update('a', 'b')
    expect(ejections).toEqual([{ upstream: 'a', cause: 'connect' }])
    test.update('a', 'b', 'c').update('a', 'b')
    expect(ejections).toHaveLength(1)
  })

  it('those above the cap come last, in ring order, and one of them is probed back', () => {
    const test = new BalancerUnderTest({ boundedLoad: { floor: 2, factor: 1 }, slowStart: false })
    test.update('a', 'b', 'c', 'd')
    const overflows = test.heard('overflow')
    for (const id of ['a', 'b', 'c']) test.fell(id)
    expect(['a', 'b', 'c', 'd'].map((id) => test.upstream(id).standing)).toEqual([
      'ejected',
      'ejected',
      'last',
      'eligible',
    ])
    expect(test.balancer.panic).toBe(true)
    const position = test.positionOf('c')
    expect(test.order(position)).toEqual(['d', 'c'])
    const load = [test.lease(position), test.lease(position), test.lease(position)]
    expect(load.map((lease) => lease.spec.id)).toEqual(['d', 'd', 'c'])
    expect(overflows).toMatchObject([{ upstream: 'c', owner: 'c', rank: 1 }])
    for (const lease of load) lease.release()
    test.clock.advance(5_000)
    const probe = test.lease(position)
    expect(probe.spec.id).toBe('c') // half-open: its own key may try it
    probe.succeeded()
    expect(test.upstream('c').standing).toBe('eligible')
    expect(test.balancer.panic).toBe(false)
  })

  it('when nobody is eligible, a last resort that works is back with its first good answer after the open period', () => {
    const test = new BalancerUnderTest().update('a', 'b')
    test.fell('a')
    test.fell('b')
    const served = test.lease(test.positionOf('b'))
    expect(served.spec.id).toBe('b') // 'a' holds the one ejection that the cap allows
    served.succeeded()
    expect(test.upstream('b').standing).toBe('last')
    test.clock.advance(5_000)
    test.lease(test.positionOf('b')).succeeded()
    expect(test.upstream('b').standing).toBe('eligible')
  })

  it('refused connections are outside the cap: with all down there is no upstream until one may be probed', () => {
    const test = new BalancerUnderTest().update('a', 'b')
    test.fell('a', 'connect')
    test.clock.advance(1_000)
    test.fell('b', 'connect')
    expect(test.balancer.panic).toBe(false)
    expect(test.choose(0n)).toEqual({ reason: 'none-eligible', retryAfterMs: 4_000 })
    test.clock.advance(4_000)
    expect(test.lease(test.positionOf('b')).spec.id).toBe('a')
    expect(test.choose(0n)).toMatchObject({ reason: 'none-eligible' })
  })

  it('failing health checks eject under the cap, and no probe goes to one that they call unhealthy', () => {
    const test = new BalancerUnderTest().update('a', 'b', 'c')
    const ejections = test.heard('ejection')
    test.balancer.setHealthy('a', false)
    test.balancer.setHealthy('b', false)
    test.balancer.setHealthy('no such upstream', false)
    expect(ejections).toEqual([{ upstream: 'a', cause: 'answers' }])
    expect(test.balancer.panic).toBe(true)
    test.fell('a')
    test.clock.advance(5_000)
    expect(twenty.some((position) => test.lease(position).spec.id === 'a')).toBe(false)
    test.balancer.setHealthy('b', true)
    expect(test.balancer.panic).toBe(false)
  })

  it('the cap counts weights', () => {
    const test = new BalancerUnderTest().update('a', 'b', spec('c', { weight: 3 }))
    test.fell('a')
    test.fell('c') // 4 of 5
    expect(test.upstream('c').standing).toBe('last')
    expect(test.choose(0n)).toBeInstanceOf(Lease)
  })
})
