import { expect, it } from 'vitest'
import { rampFactor } from '../../src/balancer/slow-start.ts'

it('grows linearly from a tenth to the whole', () => {
  const factors = [0, 1_500, 3_000, 6_000, 15_000, 29_999, 30_000, 90_000].map((age) =>
    rampFactor(500 + age, 500, 30_000),
  )
  expect(factors).toEqual([0.1, 0.1, 0.1, 0.2, 0.5, 29_999 / 30_000, 1, 1])
})

it('is off with a duration of 0', () => {
  expect(rampFactor(500, 500, 0)).toBe(1)
})

it('is over for an upstream that was always there', () => {
  expect(rampFactor(0, Number.NEGATIVE_INFINITY, 30_000)).toBe(1)
})
