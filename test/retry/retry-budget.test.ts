import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { RetryBudget } from '../../src/retry/retry-budget.ts'
import { ManualClock } from '../support/manual-clock.ts'

function setUp(options = { percent: 20, minPerSecond: 3 }) {
  const clock = new ManualClock()
  const budget = new RetryBudget(options, clock)
  const record = (count: number) => {
    for (let request = 0; request < count; request += 1) budget.recordRequest()
  }
  /** How many of these are admitted. */
  const admit = (count: number) =>
    Array.from({ length: count }, () => budget.tryAdmit()).filter(Boolean).length
  return { clock, record, admit }
}

describe('RetryBudget', () => {
  it('admits a fifth when a hundred requests at once all want a retry', () => {
    const { record, admit } = setUp()
    record(100)
    expect(admit(100)).toBe(20)
  })

  it('admits three in any second without any traffic', () => {
    const { clock, admit } = setUp()
    expect(admit(10)).toBe(3)
    clock.advance(900)
    expect(admit(10)).toBe(0)
    clock.advance(100)
    expect(admit(10)).toBe(3)
  })

  it('admits three a second beyond a used-up share', () => {
    const { clock, record, admit } = setUp()
    record(100)
    expect(admit(100)).toBe(20)
    clock.advance(1_000)
    expect(admit(100)).toBe(3)
  })

  it('counts a retry from its admission, not from its end', () => {
    const { record, admit } = setUp({ percent: 20, minPerSecond: 0 })
    record(10)
    expect(admit(1)).toBe(1)
    expect(admit(1)).toBe(1)
    expect(admit(1)).toBe(0)
  })

  it('forgets requests and retries after ten seconds', () => {
    const { clock, record, admit } = setUp({ percent: 20, minPerSecond: 0 })
    record(100)
    clock.advance(9_999)
    expect(admit(15)).toBe(15)
    clock.advance(1)
    expect(admit(1)).toBe(0)
    record(100)
    expect(admit(100)).toBe(5)
  })

  it('admits none with a budget of nothing', () => {
    const { record, admit } = setUp({ percent: 0, minPerSecond: 0 })
    record(1_000)
    expect(admit(1_000)).toBe(0)
  })

  it('stays within the share and the floor for any traffic', () => {
    const step = fc.record({ wait: fc.nat(3_000), requests: fc.nat(40), wanted: fc.nat(40) })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const { clock, record, admit } = setUp()
        let requests = 0
        let admitted = 0
        for (const { wait, requests: more, wanted } of steps) {
          clock.advance(wait)
          record(more)
          requests += more
          admitted += admit(wanted)
        }
        // The last second's window reaches back 0.9 s at least.
        const floors = Math.ceil((clock.now() + 1) / 900) * 3
        expect(admitted).toBeLessThanOrEqual(Math.ceil(requests * 0.2) + floors)
      }),
    )
  })
})
