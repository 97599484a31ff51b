import { beforeAll, describe, expect, it } from 'vitest'
import { expectedHeaviestOverMean } from '../../src/ring/expected-balance.ts'
import { HashRing } from '../../src/ring/hash-ring.ts'
import { xxh64Ready } from '../../src/ring/xxh64.ts'

function measured(members: number, virtualNodes: number, rings: number): number {
  let sum = 0
  for (let ring = 0; ring < rings; ring++) {
    const ids = Array.from({ length: members }, (_, index) => `ring-${ring}-upstream-${index}`)
    sum += Math.max(...new HashRing(ids, { virtualNodes }).shares().values()) * members
  }
  return sum / rings
}

describe('expectedHeaviestOverMean', () => {
  beforeAll(xxh64Ready)

  it('is the harmonic number for one virtual node, within 0.01%', () => {
    let harmonic = 0
    for (let members = 1; members <= 2_000; members++) {
      harmonic += 1 / members
      expect(Math.abs(expectedHeaviestOverMean(members, 1) / harmonic - 1)).toBeLessThan(1e-4)
    }
  })

  it.each([
    [24, 1, 3.77],
    [24, 40, 1.33],
    [10, 160, 1.12],
    [100, 160, 1.21],
    [1_000, 160, 1.28],
  ])(
    'of %i upstreams with %i virtual nodes is %d (the figures of the design)',
    (members, virtualNodes, ratio) => {
      expect(Math.abs(expectedHeaviestOverMean(members, virtualNodes) - ratio)).toBeLessThan(0.0101)
    },
  )

  // The standard error of the mean of so many rings is below 1%; 3% leaves room for three of them.
  it.each([
    [24, 1, 2_000],
    [24, 40, 200],
    [24, 160, 100],
    [5, 10, 1_000],
    [100, 20, 60],
  ])(
    'is within 3% of the mean of real rings: %i upstreams with %i virtual nodes',
    (members, virtualNodes, rings) => {
      const ratio = measured(members, virtualNodes, rings) / expectedHeaviestOverMean(members, virtualNodes)
      expect(Math.abs(ratio - 1)).toBeLessThan(0.03)
    },
  )

  it('is 1 for a single upstream, and grows with upstreams and with fewer virtual nodes', () => {
    expect(expectedHeaviestOverMean(1, 160)).toBeCloseTo(1, 4)
    expect(expectedHeaviestOverMean(1, 10_000)).toBeCloseTo(1, 4)
    expect(expectedHeaviestOverMean(48, 160)).toBeGreaterThan(expectedHeaviestOverMean(24, 160))
    expect(expectedHeaviestOverMean(24, 99)).toBeGreaterThan(expectedHeaviestOverMean(24, 160))
  })
})
