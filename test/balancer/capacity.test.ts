import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { capacity, type LoadBound } from '../../src/balancer/capacity.ts'

const textbook: LoadBound = { factor: 1.25, floor: 0 }

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0)

/** Places requests of one key: the walk is always in the order of the list. */
class Cluster {
  readonly weights: readonly number[]
  readonly inFlight: number[]
  readonly #bound: LoadBound

  constructor(bound: LoadBound, weights: readonly number[]) {
    this.#bound = bound
    this.weights = weights
    this.inFlight = weights.map(() => 0)
  }

  capacities(): number[] {
    const totals = { inFlight: sum(this.inFlight), weight: sum(this.weights), count: this.weights.length }
    return this.weights.map((weight) => capacity(this.#bound, totals, weight))
  }

  /** Takes one request and returns the upstream's index, starting the walk at `first`. */
  take(first = 0): number {
    const capacities = this.capacities()
    for (let step = 0; step < this.weights.length; step += 1) {
      const index = (first + step) % this.weights.length
      const inFlight = this.inFlight[index] ?? 0
      if (inFlight < (capacities[index] ?? 0)) {
        this.inFlight[index] = inFlight + 1
        expect(inFlight + 1).toBeLessThanOrEqual(capacities[index] ?? 0)
        return index
      }
    }
    throw new Error(`expected room, got ${this.inFlight} of ${capacities}`)
  }
}

describe('known values', () => {
  it('envoyproxy/envoy#12529: 30 of one key on 3 upstreams never put more than 13 on one', () => {
    const cluster = new Cluster(textbook, [1, 1, 1])
    for (let request = 0; request < 30; request += 1) cluster.take()
    expect(cluster.inFlight).toEqual([13, 13, 4])
  })

  it('takes no request beyond the bound, where Envoy puts 14, 14, 12, 0', () => {
    const cluster = new Cluster(textbook, [1, 1, 1, 1])
    for (let request = 0; request < 40; request += 1) cluster.take()
    expect(cluster.inFlight).toEqual([13, 13, 12, 2])
  })

  it('never refuses with a single upstream', () => {
    const cluster = new Cluster({ factor: 1, floor: 0 }, [3])
    for (let request = 0; request < 1_000; request += 1) cluster.take()
    expect(cluster.inFlight).toEqual([1_000])
  })

  it('keeps the floor for an upstream of mean weight, and its part for others', () => {
    const totals = { inFlight: 0, weight: 6, count: 3 }
    const capacities = [0.1, 1, 2, 2.9].map((weight) => capacity({ factor: 1.25, floor: 8 }, totals, weight))
    expect(capacities).toEqual([1, 4, 8, 12])
  })

  it('outgrows the floor when traffic is high', () => {
    const totals = { inFlight: 99, weight: 10, count: 10 }
    expect(capacity({ factor: 1.25, floor: 8 }, totals, 1)).toBe(13)
  })
})

describe('rounding', () => {
  it.each([
    { factor: 1.1, inFlight: 89, weights: [0.3, 0.3, 0.3], expected: 33 },
    { factor: 1.25, inFlight: 59, weights: [0.3, 0.3, 0.3], expected: 25 },
    { factor: 1.5, inFlight: 15, weights: [0.1, 0.1, 0.1, 0.1, 0.1, 0.1], expected: 4 },
  ])('does not push a whole number up: $factor × ($inFlight + 1) over $weights', (example) => {
    const { factor, inFlight, weights, expected } = example
    const weight = weights[0] ?? 0
    const totals = { inFlight, weight: sum(weights), count: weights.length }
    const naive = Math.ceil((factor * (inFlight + 1) * weight) / totals.weight)
    expect(naive, 'an example that discriminates').toBe(expected + 1)
    expect(capacity({ factor, floor: 0 }, totals, weight)).toBe(expected)
  })

  it('equals exact arithmetic on decimal inputs', () => {
    const hundredths = fc.integer({ min: 1, max: 10_000 })
    fc.assert(
      fc.property(
        fc.integer({ min: 100, max: 400 }),
        fc.nat(100_000),
        fc.array(hundredths, { minLength: 1, maxLength: 30 }),
        fc.integer({ min: 0, max: 20 }),
        (factor, inFlight, weights, floor) => {
          const totals = {
            inFlight,
            weight: sum(weights.map((weight) => weight / 100)),
            count: weights.length,
          }
          const total = BigInt(sum(weights))
          const ceilDivided = (dividend: bigint, divisor: bigint) => (dividend + divisor - 1n) / divisor
          for (const weight of weights) {
            const share = ceilDivided(BigInt(factor) * BigInt(inFlight + 1) * BigInt(weight), total * 100n)
            const least = ceilDivided(BigInt(floor * weights.length) * BigInt(weight), total)
            expect(capacity({ factor: factor / 100, floor }, totals, weight / 100)).toBe(
              Math.max(Number(share), Number(least)),
            )
          }
        },
      ),
    )
  })
})

describe('laws', () => {
  const bound = fc.record({
    factor: fc.double({ min: 1, max: 4, noNaN: true }),
    floor: fc.constantFrom(0, 0, 1, 8),
  })
  const weight = fc.double({ min: 0.001, max: 100, noNaN: true })
  const weights = fc.array(weight, { minLength: 1, maxLength: 40 })

  it('the capacities sum up to at least L + 1', () => {
    fc.assert(
      fc.property(bound, weights, fc.nat(10_000_000), (bound, weights, inFlight) => {
        const totals = { inFlight, weight: sum(weights), count: weights.length }
        const capacities = weights.map((weight) => capacity(bound, totals, weight))
        expect(sum(capacities)).toBeGreaterThanOrEqual(inFlight + 1)
      }),
    )
  })

  it('any order of takes and releases finds room, and no take passes the capacity', () => {
    const move = fc.record({ release: fc.boolean(), at: fc.nat() })
    fc.assert(
      fc.property(bound, weights, fc.array(move, { maxLength: 200 }), (bound, weights, moves) => {
        const cluster = new Cluster(bound, weights)
        const held: number[] = []
        for (const { release, at } of moves) {
          if (!release) held.push(cluster.take(at % weights.length))
          else if (held.length > 0) {
            const [index = 0] = held.splice(at % held.length, 1)
            cluster.inFlight[index] = (cluster.inFlight[index] ?? 0) - 1
          }
        }
        expect(sum(cluster.inFlight)).toBe(held.length)
      }),
    )
  })
})
