import { describe, expect, it } from 'vitest'
import { OpenPeriod } from '../../src/breaker/open-period.ts'
import { circuitBreakerDefaults } from './defaults.ts'

const withoutJitter = { ...circuitBreakerDefaults, jitter: 0 }

describe('OpenPeriod', () => {
  it('doubles from trip to trip and stops at the maximum', () => {
    const period = new OpenPeriod(withoutJitter, () => 0)
    const periods = Array.from({ length: 9 }, () => period.next(0))
    expect(periods).toEqual([5, 10, 20, 40, 80, 160, 300, 300, 300].map((seconds) => seconds * 1_000))
  })

  it('forgets one doubling for each window closed', () => {
    const period = new OpenPeriod(withoutJitter, () => 0)
    for (let trip = 0; trip < 3; trip += 1) period.next(0)
    expect(period.next(9_999)).toBe(40_000)
    expect(period.next(10_000)).toBe(40_000)
    expect(period.next(20_000)).toBe(20_000)
    expect(period.next(3_600_000)).toBe(5_000)
  })

  it('begins to forget at once after a long time at the maximum', () => {
    const period = new OpenPeriod(withoutJitter, () => 0)
    for (let trip = 0; trip < 50; trip += 1) period.next(0)
    expect(period.next(10_000)).toBe(160_000)
  })

  it('only ever lengthens by jitter, by at most its share', () => {
    const shortest = new OpenPeriod(circuitBreakerDefaults, () => 0)
    const longest = new OpenPeriod(circuitBreakerDefaults, () => 1)
    expect(shortest.next(0)).toBe(5_000)
    expect(longest.next(0)).toBe(5_500)
  })

  it('takes a first period beyond the maximum as the maximum', () => {
    const period = new OpenPeriod({ ...withoutJitter, openMs: 900_000 }, () => 0)
    expect([period.next(0), period.next(0)]).toEqual([300_000, 300_000])
  })
})
