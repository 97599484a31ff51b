import fc from 'fast-check'
import { expect, it } from 'vitest'
import { capacity } from '../../src/balancer/capacity.ts'
import { Lease } from '../../src/balancer/lease.ts'
import type { Upstream, UpstreamState } from '../../src/topology/topology.ts'
import { scanOwner, scanPoints } from '../ring/linear-scan.ts'
import { BalancerUnderTest, spec } from './set-up.ts'

const ids = ['a', 'b', 'c', 'd', 'e']

it('the walk is the order of a linear scan, whatever was tried, is off the ring or is ejected', () => {
  const states = fc.constantFrom<UpstreamState>('active', 'active', 'active', 'draining', 'warming')
  const member = fc.record({ state: states, weight: fc.constantFrom(0.5, 1, 3), down: fc.boolean() })
  const position = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n })
  fc.assert(
    fc.property(
      fc.array(member, { minLength: 1, maxLength: 5 }),
      fc.array(position),
      (members, positions) => {
        const test = new BalancerUnderTest({ ring: { virtualNodes: 5 }, limits: { ringPoints: 100 } })
        const upstreams = members.map(({ state, weight }, index) => spec(ids[index] ?? '', { state, weight }))
        test.update(...upstreams)
        const active = upstreams.filter(({ state }) => state === 'active')
        for (const [index, { down }] of members.entries()) if (down) test.fell(ids[index] ?? '', 'connect')
        const mayFail = active.length > 1 // a single upstream is never ejected
        const usable = active.filter(({ id }) => !(mayFail && members[ids.indexOf(id)]?.down))
        const points = scanPoints(active, 5)
        for (const at of [...positions, ...points.map((point) => point.position)]) {
          const expected: string[] = []
          const passed = new Set(active.filter((upstream) => !usable.includes(upstream)).map(({ id }) => id))
          for (let id = scanOwner(points, at, passed); id; id = scanOwner(points, at, passed)) {
            expected.push(id)
            passed.add(id)
          }
          expect(test.order(at)).toEqual(expected)
        }
      },
    ),
    { numRuns: 60 },
  )
})

type Step =
  | { do: 'take'; key: number; longLived: boolean }
  | { do: 'end'; which: number; how: 'success' | 'abort' | 'timeout' | 'connect' | 'status' }
  | { do: 'wait'; milliseconds: number }
  | { do: 'change'; upstreams: Upstream[] }
  | { do: 'check'; id: string; healthy: boolean }

const change = fc
  .uniqueArray(
    fc.record({
      id: fc.constantFrom(...ids),
      weight: fc.constantFrom(0.3, 1, 1, 4),
      state: fc.constantFrom<UpstreamState>('active', 'active', 'active', 'draining', 'warming'),
      port: fc.constantFrom(1, 2),
    }),
    { selector: ({ id }) => id, maxLength: 5 },
  )
  .map((found) => found.map(({ port, ...fields }) => spec(fields.id, { ...fields, url: `http://h:${port}` })))

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('take' as const),
      key: fc.nat(5),
      longLived: fc.constantFrom(false, false, false, true),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('end' as const),
      which: fc.nat(50),
      how: fc.constantFrom(
        'success' as const,
        'abort' as const,
        'timeout' as const,
        'connect' as const,
        'status' as const,
      ),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('wait' as const),
      milliseconds: fc.constantFrom(1, 700, 6_000, 40_000),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('change' as const), upstreams: change }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('check' as const),
      id: fc.constantFrom(...ids),
      healthy: fc.boolean(),
    }),
  },
)

it.each([
  ['with a floor', { factor: 1.25, floor: 3 }],
  ["by the textbook's rule", { factor: 1, floor: 0 }],
])(
  'no sequence takes an upstream past its capacity, refuses a request for load, or loses a slot: %s',
  (_, boundedLoad) => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 150 }), (steps) => {
        const test = new BalancerUnderTest({
          ...{ boundedLoad, slowStart: { durationMs: 10_000 }, ring: { virtualNodes: 20 } },
          circuitBreaker: { consecutiveFailures: 2, distinctKeys: 1 },
        })
        test.update('a', 'b', 'c')
        const open: Lease[] = []
        for (const next of steps) perform(test, next, open, boundedLoad)
        for (const lease of open) lease.release()
        expect(test.balancer.registry.inFlight).toBe(0)
        expect([...test.balancer.registry.present].every(({ longLived }) => longLived === 0)).toBe(true)
        expectCapacitiesFollowLoad(test, boundedLoad)
      }),
      { numRuns: 150 },
    )
  },
)

function perform(
  test: BalancerUnderTest,
  next: Step,
  open: Lease[],
  boundedLoad: { factor: number; floor: number },
): void {
  switch (next.do) {
    case 'take': {
      const { balancer } = test
      const before = new Map(
        [...balancer.registry.present].map((known) => [known, balancer.capacityOf(known)]),
      )
      const chosen = test.choose(BigInt(next.key) << 61n, { longLived: next.longLived })
      if (!(chosen instanceof Lease)) {
        expect(chosen.reason).toBe('none-eligible')
        return
      }
      open.push(chosen)
      const bound = before.get(chosen.upstream) ?? Number.POSITIVE_INFINITY
      if (!next.longLived) expect(chosen.upstream.inFlight).toBeLessThanOrEqual(bound)
      return
    }
    case 'end': {
      const [lease] = open.splice(next.which % Math.max(1, open.length), 1)
      if (next.how === 'success') lease?.succeeded()
      else if (next.how !== 'abort') lease?.failed(next.how, BigInt(next.which))
      lease?.release()
      lease?.release()
      return
    }
    case 'wait':
      test.clock.advance(next.milliseconds)
      return
    case 'change':
      test.update(...next.upstreams)
      expectCapacitiesFollowLoad(test, boundedLoad)
      return
    default:
      test.balancer.setHealthy(next.id, next.healthy)
  }
}

/** The sums that the balancer keeps are those of a fresh count. */
function expectCapacitiesFollowLoad(test: BalancerUnderTest, bound: { factor: number; floor: number }): void {
  const members = [...test.balancer.registry.present]
  const capacities = members.map((upstream) => test.balancer.capacityOf(upstream))
  const bearing = members.filter(({ bearsLoad }) => bearsLoad)
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0)
  const totals = {
    inFlight: sum(bearing.map(({ inFlight }) => inFlight)),
    weight: sum(bearing.map(({ effectiveWeight }) => effectiveWeight)),
    count: bearing.length,
  }
  expect(capacities).toEqual(
    members.map(({ standing, effectiveWeight }) =>
      standing === 'off' || bearing.length === 0 ? undefined : capacity(bound, totals, effectiveWeight),
    ),
  )
}
