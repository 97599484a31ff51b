import fc from 'fast-check'
import { beforeAll, describe, expect, it } from 'vitest'
import { changePoints } from '../../src/ring/change-points.ts'
import { nativeLayout } from '../../src/ring/layout.ts'
import { type RingMemberInput, ringMembers } from '../../src/ring/members.ts'
import { Points } from '../../src/ring/points.ts'
import { resolveRingOptions } from '../../src/ring/ring-options.ts'
import { xxh64Ready } from '../../src/ring/xxh64.ts'
import { finish } from '../../src/steps.ts'

const layout = nativeLayout(resolveRingOptions({ virtualNodes: 10 }))
const EMPTY = finish(Points.create(0, 0))
// Few ids, so that sets overlap; two that differ only in a lone surrogate, so that all their points tie.
const MEMBERS = fc.uniqueArray(
  fc.record({
    id: fc.constantFrom('a', 'b', 'c', 'd', 'e', '\ud800', '\ud801', 'é'),
    weight: fc.constantFrom(0.01, 0.5, 1, 1.01, 3, 40),
  }),
  { selector: ({ id }) => id },
)

const bytes = ({ high, low, member, offsets }: Points) =>
  high.byteLength + low.byteLength + member.byteLength + (offsets?.byteLength ?? 0)
const members = (inputs: Iterable<RingMemberInput>) => finish(ringMembers(inputs, layout))
const fresh = (inputs: Iterable<RingMemberInput>) => finish(changePoints(EMPTY, [], members(inputs), layout))

describe('points', () => {
  beforeAll(xxh64Ready)

  it('changed step by step are, array by array, those of a fresh build', () => {
    fc.assert(
      fc.property(fc.array(MEMBERS, { minLength: 1, maxLength: 5 }), (sets) => {
        let points = EMPTY
        let before = members([])
        for (const set of sets) {
          const after = members(set)
          points = finish(changePoints(points, before, after, layout))
          before = after
          expect(points).toEqual(fresh(set))
        }
      }),
      { numRuns: 300 },
    )
  })

  it('of a large ring changed are those of a fresh build, whoever comes and goes', () => {
    const large = nativeLayout(resolveRingOptions({ virtualNodes: 160 }))
    const ids = Array.from({ length: 400 }, (_, index) => `upstream-${index}`)
    const sets = [ids, ids.slice(1), [...ids, 'b'], ids.slice(0, 200), ids.slice(100, 101), ['z', ...ids], []]
    let points = EMPTY
    let before = finish(ringMembers([], large))
    for (const set of sets) {
      const after = finish(ringMembers(set, large))
      points = finish(changePoints(points, before, after, large))
      before = after
      expect(Buffer.from(points.member.buffer).equals(memberBytes(after))).toBe(true)
      expect(points.size).toBe(set.length * 160)
    }
    function memberBytes(after: typeof before) {
      return Buffer.from(finish(changePoints(EMPTY, [], after, large)).member.buffer)
    }
  })

  it('are in order of position, then of id', () => {
    const points = fresh(
      Array.from({ length: 300 }, (_, index) => `upstream-${(index * 7) % 300}`).concat('\ud801', '\ud800'),
    )
    let ties = 0
    for (let index = 1; index < points.size; index++) {
      const [high, low, member] = [points.high[index], points.low[index], points.member[index]]
      if (high === undefined || low === undefined || member === undefined) throw new Error('expected a point')
      expect(points.precedes(index - 1, high, low, member)).toBe(true)
      if (points.high[index - 1] === high && points.low[index - 1] === low) ties++
    }
    expect(ties).toBe(10)
  })

  it('take 11 bytes each below 65,536 members, and 12 from there on', () => {
    for (const [count, expected] of [
      [65_535, 11],
      [65_536, 12],
    ] as const) {
      const points = finish(Points.create(1_000, count))
      finish(points.index())
      expect(bytes(points)).toBe(1_000 * expected)
    }
  })

  it('know every member beyond 65,536', () => {
    const single = nativeLayout(resolveRingOptions({ virtualNodes: 1 }))
    const many = finish(
      ringMembers(
        Array.from({ length: 70_000 }, (_, index) => `upstream-${index}`),
        single,
      ),
    )
    const points = finish(changePoints(EMPTY, [], many, single))
    expect(new Set(points.member).size).toBe(70_000)
  })
})
