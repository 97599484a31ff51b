import { describe, expect, it } from 'vitest'
import { lowerBound } from '../../src/ring/lower-bound.ts'

describe('lowerBound', () => {
  const high = Uint32Array.of(1, 1, 1, 7, 0xffffffff)
  const low = Uint32Array.of(5, 9, 9, 0, 0xffffffff)

  it.each([
    ['before all', 0, 0, 0],
    ['exactly on the first', 1, 5, 0],
    ['one past the first', 1, 6, 1],
    ['on a repeated position: the first of them', 1, 9, 1],
    ['one past the repeated', 1, 10, 3],
    ['a lower low half under a higher high half', 2, 0, 3],
    ['exactly on a zero low half', 7, 0, 3],
    ['the largest position', 0xffffffff, 0xffffffff, 4],
    ['one before the largest', 0xffffffff, 0xfffffffe, 4],
  ])('%s', (_, wantedHigh, wantedLow, expected) => {
    expect(lowerBound(high, low, wantedHigh, wantedLow)).toBe(expected)
  })

  it('gives the length when all are before', () => {
    expect(lowerBound(high.subarray(0, 4), low.subarray(0, 4), 7, 1)).toBe(4)
    expect(lowerBound(new Uint32Array(), new Uint32Array(), 0, 0)).toBe(0)
  })
})
