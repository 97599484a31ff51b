import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { lowerBound } from '../../src/ring/lower-bound.ts'
import { Points } from '../../src/ring/points.ts'
import { finish } from '../../src/steps.ts'

const TOP = 2 ** 32 - 1

function pointsAt(positions: readonly (readonly [high: number, low: number])[]): Points {
  const points = finish(Points.create(positions.length, 1))
  const sorted = positions.toSorted(([a, b], [c, d]) => a - c || b - d)
  for (const [index, [high, low]] of sorted.entries()) points.set(index, high, low, 0)
  finish(points.index())
  return points
}

/** Every position worth asking for: the points, one before and one behind each, and the ends of the circle. */
function* probes({ high, low, size }: Points): Generator<readonly [high: number, low: number]> {
  yield* [
    [0, 0],
    [0, 1],
    [TOP, TOP],
  ]
  for (let point = 0; point < size; point += 1) {
    const [atHigh = 0, atLow = 0] = [high[point], low[point]]
    yield [atHigh, atLow]
    yield [atHigh, Math.max(0, atLow - 1)]
    yield [atHigh, Math.min(TOP, atLow + 1)]
    yield [Math.max(0, atHigh - 1), TOP]
    yield [Math.min(TOP, atHigh + 1), 0]
  }
}

function expectSearchToEqualLowerBound(points: Points): void {
  for (const [high, low] of probes(points)) {
    expect(points.firstFrom(high, low)).toBe(lowerBound(points.high, points.low, high, low))
  }
}

describe('the index of the points', () => {
  const UNIFORM = fc.nat(TOP)
  const EXTREME = fc.constantFrom(0, 1, 2 ** 31 - 1, 2 ** 31, 2 ** 31 + 1, TOP - 1, TOP)
  const CROWDED = fc.integer({ min: 2 ** 31, max: 2 ** 31 + 20 })

  it('leads to the point that a binary search finds, wherever the points lie', () => {
    const half = fc.oneof(UNIFORM, EXTREME, CROWDED)
    fc.assert(
      fc.property(fc.array(fc.tuple(half, half), { minLength: 1, maxLength: 120 }), (positions) => {
        const points = pointsAt(positions)
        expect(points.offsets).toHaveLength(Math.ceil(positions.length / 2))
        expectSearchToEqualLowerBound(points)
      }),
      { numRuns: 300 },
    )
  })

  it('is not there without points', () => {
    expect(pointsAt([]).offsets).toBeUndefined()
    expect(pointsAt([]).firstFrom(0, 0)).toBe(0)
  })

  it('is left out where the points are too crowded for it, and the search goes on without', () => {
    // 40,000 points where 2 would be expected: the buckets behind them begin 39,998 places late.
    const points = pointsAt(Array.from({ length: 40_000 }, (_, index) => [5, index] as const))
    expect(points.offsets).toBeUndefined()
    expect(points.firstFrom(5, 33_333)).toBe(33_333)
    expect(points.firstFrom(6, 0)).toBe(40_000)
  })

  it('holds up to 32,767 places', () => {
    const crowd = (size: number) => pointsAt(Array.from({ length: size }, (_, index) => [0, index] as const))
    expect(crowd(32_768).offsets?.[1]).toBe(32_766)
    expect(crowd(32_769).offsets).toBeUndefined()
  })
})
