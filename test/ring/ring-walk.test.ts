import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { HashRing } from '../../src/ring/hash-ring.ts'
import { RingWalk } from '../../src/ring/ring-walk.ts'
import { scanOwner, scanPoints } from './linear-scan.ts'

const POSITION = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n })
const IDS = fc.uniqueArray(fc.string({ minLength: 1, maxLength: 6 }), { maxLength: 8 })

function idsFrom(ring: HashRing, walk: RingWalk, position: bigint): (string | undefined)[] {
  walk.start(position)
  const ids: (string | undefined)[] = []
  for (let member = walk.next(); member !== -1; member = walk.next()) ids.push(ring.members[member]?.id)
  return ids
}

describe('RingWalk', () => {
  it('zalando/skipper#2460, #4139: equals the linear scan under any exclusion, on, past and between points', () => {
    fc.assert(
      fc.property(
        IDS,
        fc.integer({ min: 1, max: 12 }),
        POSITION,
        fc.nat(),
        fc.nat(255),
        (ids, virtualNodes, any, at, mask) => {
          const ring = new HashRing(ids, { virtualNodes })
          const points = scanPoints(
            ids.map((id) => ({ id })),
            virtualNodes,
          )
          const point = points[at % (points.length || 1)]?.position ?? 0n
          const last =
            points
              .map(({ position }) => position)
              .sort((a, b) => (a < b ? -1 : 1))
              .at(-1) ?? 0n
          const excluded = new Set(ids.filter((_, index) => (mask >> index) & 1))
          const walk = new RingWalk(ring)
          for (const position of [
            any,
            point,
            BigInt.asUintN(64, point + 1n),
            BigInt.asUintN(64, last + 1n),
            0n,
            2n ** 64n - 1n,
          ]) {
            const walked = idsFrom(ring, walk, position)
            expect(walked.length).toBe(ids.length)
            expect(walked.find((id) => id !== undefined && !excluded.has(id))).toBe(
              scanOwner(points, position, excluded),
            )
            const met = new Set<string>()
            for (const id of walked) {
              expect(id).toBe(scanOwner(points, position, met))
              if (id !== undefined) met.add(id)
            }
          }
        },
      ),
    )
  })

  it('gives -1 before the first start, after the last member, and on an empty ring', () => {
    const walk = new RingWalk(new HashRing(['a']))
    expect(walk.next()).toBe(-1)
    walk.start(0n)
    expect([walk.next(), walk.next(), walk.next()]).toEqual([0, -1, -1])
    const nowhere = new RingWalk(new HashRing([]))
    nowhere.start(5n)
    expect(nowhere.next()).toBe(-1)
  })

  it('starts anew in the middle of a walk', () => {
    const ring = new HashRing(['a', 'b', 'c'])
    const walk = new RingWalk(ring)
    const whole = idsFrom(ring, walk, ring.position('key'))
    walk.start(ring.position('other'))
    walk.next()
    expect(idsFrom(ring, walk, ring.position('key'))).toEqual(whole)
    expect(whole).toEqual(ring.owners('key', 3))
  })

  it('two walks of one ring do not disturb each other', () => {
    const ring = new HashRing(['a', 'b', 'c'])
    const [one, other] = [new RingWalk(ring), new RingWalk(ring)]
    one.start(0n)
    other.start(0n)
    for (let step = 0; step < 4; step++) expect(one.next()).toBe(other.next())
  })
})
