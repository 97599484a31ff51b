import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { OptionsError } from '../../src/errors.ts'
import { DisappearanceGuard, parseDisappearance } from '../../src/topology/disappearance-guard.ts'
import type { Topology, Upstream } from '../../src/topology/topology.ts'
import { ManualClock } from '../support/manual-clock.ts'

const ids = (count: number, prefix = 'u') => Array.from({ length: count }, (_, index) => `${prefix}${index}`)
const idOf = (name: string) => name.replace('!', '')

/** A guard before which a set of upstreams changes: `id` is active, `id!` draining. */
function makeGuard(options: Parameters<typeof parseDisappearance>[0] = {}) {
  const clock = new ManualClock()
  let served: Topology | undefined
  const guard = new DisappearanceGuard(parseDisappearance(options), clock, (topology) => {
    served = topology
  })
  let revision = 0n
  const set = (...names: readonly string[]) => {
    revision += 1n
    const upstreams = names.map((name): Upstream => {
      const state = name.endsWith('!') ? 'draining' : 'active'
      return { id: idOf(name), url: `http://${idOf(name)}`, weight: 1, state }
    })
    served = guard.take({ id: 't', epoch: 0, revision, upstreams, degraded: false })
  }
  return {
    clock,
    guard,
    set,
    get served() {
      return served?.upstreams.map(({ id }) => id) ?? []
    },
    get held() {
      return [...(served?.held ?? [])]
    },
    get topology() {
      return served
    },
  }
}

describe('DisappearanceGuard', () => {
  it('obeys a loss of half, and holds one more', () => {
    const gateway = makeGuard()
    gateway.set(...ids(10))
    gateway.set(...ids(5))
    expect(gateway.served).toEqual(ids(5))
    gateway.set(...ids(4))
    expect(gateway.served).toEqual(ids(10))
    expect(gateway.held).toEqual(ids(10).slice(4))
    expect(gateway.topology).toMatchObject({ revision: 3n, degraded: true })
  })

  it('holds for the grace period, then obeys, and leaves no timer', () => {
    const gateway = makeGuard()
    gateway.set(...ids(10))
    gateway.clock.advance(500_000)
    gateway.set('u0', 'u1')
    gateway.clock.advance(59_999)
    expect(gateway.held).toHaveLength(8)
    gateway.clock.advance(1)
    expect(gateway.served).toEqual(['u0', 'u1'])
    expect(gateway.topology).toMatchObject({ degraded: false })
    expect(gateway.topology?.held).toBeUndefined()
    expect(gateway.clock.pendingTimers).toBe(0)
  })

  it('counts leases that expire one event at a time, and gives each its own grace', () => {
    const gateway = makeGuard()
    gateway.set(...ids(10))
    for (let left = 9; left >= 2; left -= 1) {
      gateway.clock.advance(1000)
      gateway.set(...ids(left))
      expect(gateway.served).toHaveLength(left >= 5 ? left : 10)
    }
    // Held since the sixth went, at 6 s; the eighth went at 8 s.
    gateway.clock.advance(57_999)
    expect(gateway.held).toHaveLength(8)
    gateway.clock.advance(1)
    expect(gateway.held).toEqual(['u2', 'u3'])
    gateway.clock.advance(2000)
    expect(gateway.served).toEqual(['u0', 'u1'])
  })

  it('does not count what went more than 60 s ago', () => {
    const gateway = makeGuard()
    gateway.set(...ids(10))
    for (let left = 9; left >= 1; left -= 1) {
      gateway.clock.advance(20_001)
      gateway.set(...ids(left))
      // The largest set of 60 s has three more: the third loss of five is the first that is more than half.
      expect(gateway.held).toEqual(left < 3 ? ids(5).slice(left) : [])
      if (gateway.held.length > 0) break
    }
    expect(gateway.held).toEqual(['u2', 'u3', 'u4'])
  })

  it('lets what drained leave at once, all of it too', () => {
    const gateway = makeGuard()
    gateway.set(...ids(10))
    gateway.set(...ids(10).map((id, index) => (index < 6 ? `${id}!` : id)))
    gateway.set(...ids(10).slice(6))
    expect(gateway.served).toEqual(['u6', 'u7', 'u8', 'u9'])
    gateway.set('u6!', 'u7!', 'u8!', 'u9!')
    gateway.set()
    expect(gateway.served).toEqual([])
    expect(gateway.topology?.degraded).toBe(false)
  })

  it('holds what is left of a set when the rest has drained', () => {
    const gateway = makeGuard()
    gateway.set(...ids(10))
    gateway.set('u0!', 'u1!', 'u2!', 'u3!', 'u4!', 'u5', 'u6', 'u7', 'u8', 'u9')
    gateway.set('u0!', 'u1!', 'u2!', 'u3!', 'u4!')
    expect(gateway.held).toEqual(['u5', 'u6', 'u7', 'u8', 'u9'])
  })

  it.each(['new before old', 'old before new'])('obeys a rolling replacement, %s', (order) => {
    const gateway = makeGuard()
    let present = ids(4)
    gateway.set(...present)
    for (let round = 0; round < 8; round += 1) {
      const both = [...present, `v${round}`]
      present = both.slice(1)
      gateway.clock.advance(1000)
      gateway.set(...(order === 'new before old' ? both : present.slice(0, -1)))
      gateway.set(...present)
      expect(gateway.served).toEqual([...present].sort())
    }
  })

  it('stops holding once as many new ones have come', () => {
    const gateway = makeGuard()
    gateway.set(...ids(3))
    gateway.set()
    gateway.set('v0', 'v1')
    expect(gateway.held).toEqual(ids(3))
    gateway.set('v0', 'v1', 'v2')
    expect(gateway.served).toEqual(['v0', 'v1', 'v2'])
    expect(gateway.clock.pendingTimers).toBe(0)
  })

  it('holds no longer what comes back, and goes on with the others', () => {
    const gateway = makeGuard()
    gateway.set(...ids(5))
    gateway.set('u0')
    gateway.set('u0', 'u1', 'u2')
    expect(gateway.held).toEqual(['u3', 'u4'])
    gateway.set(...ids(5))
    expect(gateway.topology?.held).toBeUndefined()
    expect(gateway.clock.pendingTimers).toBe(0)
  })

  it('keeps the last set when nothing is left, and gives those that follow time to come', () => {
    const gateway = makeGuard()
    gateway.set(...ids(4))
    gateway.set()
    gateway.clock.advance(1_000_000)
    expect(gateway.served).toEqual(ids(4))
    gateway.set('u0')
    gateway.clock.advance(59_999)
    expect(gateway.served).toEqual(ids(4))
    gateway.clock.advance(1)
    expect(gateway.served).toEqual(['u0'])
  })

  it('obeys an empty set after the grace period where that is wanted', () => {
    const gateway = makeGuard({ onEmpty: 'obey', gracePeriodMs: 5000 })
    gateway.set(...ids(4))
    gateway.set()
    gateway.clock.advance(4999)
    expect(gateway.served).toEqual(ids(4))
    gateway.clock.advance(1)
    expect(gateway.served).toEqual([])
  })

  it('obeys at once without a grace period, but not an empty set', () => {
    const gateway = makeGuard({ gracePeriodMs: 0 })
    gateway.set(...ids(4))
    gateway.set('u0')
    expect(gateway.served).toEqual(['u0'])
    gateway.set()
    expect(gateway.held).toEqual(['u0'])
  })

  it('has nothing to hold at first, and closes its timer', () => {
    const gateway = makeGuard()
    gateway.set()
    expect(gateway.topology?.held).toBeUndefined()
    gateway.set(...ids(4))
    gateway.set('u0')
    gateway.guard.close()
    expect(gateway.clock.pendingTimers).toBe(0)
  })

  it('keeps its laws whatever happens', () => {
    const name = fc.constantFrom(...ids(8), ...ids(4).map((id) => `${id}!`))
    const step = fc.record({
      names: fc.uniqueArray(name, { selector: idOf }),
      wait: fc.constantFrom(0, 1, 900, 30_000, 61_000),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 15 }), (steps) => {
        const gateway = makeGuard()
        let before: readonly string[] = []
        let drained: ReadonlySet<string> = new Set()
        for (const { names, wait } of steps) {
          const sorted = [...names].sort()
          const present = sorted.map(idOf)
          gateway.set(...sorted)
          // All that the source has, and beside it only what it lacks.
          expect(gateway.served).toEqual([...present, ...gateway.held].sort())
          expect(gateway.topology?.degraded).toBe(gateway.held.length > 0)
          expect(gateway.held.filter((id) => drained.has(id))).toEqual([])
          // One step alone never takes more than half of what it had, new ones and drained ones aside (one taken back from draining is new).
          const active = before.filter((id) => !drained.has(id))
          const lost = active.filter((id) => !gateway.served.includes(id)).length
          const came = present.filter((id) => !active.includes(id)).length
          expect(lost - came).toBeLessThanOrEqual(active.length / 2)
          drained = new Set(sorted.filter((each) => each.endsWith('!')).map(idOf))
          gateway.clock.advance(wait)
          before = gateway.served
        }
        const last = (steps.at(-1)?.names ?? []).map(idOf).sort()
        gateway.clock.advance(200_000)
        if (last.length > 0) expect(gateway.served).toEqual(last)
        if (last.length > 0) expect(gateway.clock.pendingTimers).toBe(0)
      }),
      { numRuns: 1000 },
    )
  })

  it.each([
    [{ gracePeriodMs: -1 }, 'gracePeriodMs: expected 0 to 2147483647 milliseconds, got -1'],
    [{ onEmpty: 'hold' as never }, 'onEmpty: expected "keep" or "obey", got "hold"'],
  ])('refuses %j', (options, message) => {
    expect(() => parseDisappearance(options)).toThrow(new OptionsError(message))
  })
})
