import { expect, test } from 'vitest'
import { growth } from './trend.ts'

const readings = (values: readonly number[]) => values.map((value, index) => ({ at: 10 * index, value }))

test('a leak is seen whole, among bursts too', () => {
  expect(growth(readings([1, 2, 3, 4, 5]))).toBe(4)
  expect(growth(readings([1, 2, 90, 4, 5, 6, 7, 0, 9, 10, 11]))).toBeCloseTo(10)
})

test('a burst, or garbage that comes and goes, is no growth', () => {
  expect(growth(readings([5, 5, 5, 70, 5, 5, 5]))).toBe(0)
  expect(growth(readings([5, 9, 5, 9, 5, 9, 5]))).toBeCloseTo(0)
  expect(growth(readings([5]))).toBe(0)
})
