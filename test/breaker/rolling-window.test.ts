import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { RollingWindow } from '../../src/breaker/rolling-window.ts'

describe('RollingWindow', () => {
  it('counts up to the last millisecond of the window and forgets at its end', () => {
    const window = new RollingWindow(10_000)
    window.add(0)
    expect(window.total(9_999)).toBe(1)
    expect(window.total(10_000)).toBe(0)
  })

  it('slides by whole buckets', () => {
    const window = new RollingWindow(10_000)
    window.add(999)
    window.add(1_000)
    expect(window.total(10_000)).toBe(1)
    expect(window.total(11_000)).toBe(0)
  })

  it('starts anew after a silence of many windows', () => {
    const window = new RollingWindow(1_000, 4)
    for (let time = 0; time < 1_000; time += 50) window.add(time)
    expect(window.total(1e12)).toBe(0)
    window.add(1e12)
    expect(window.total(1e12)).toBe(1)
  })

  it('equals a count over all that was ever added, whatever the zero of the clock', () => {
    const waits = fc.array(fc.integer({ min: 0, max: 700 }), { maxLength: 200 })
    fc.assert(
      fc.property(waits, fc.integer({ min: -5_000, max: 5_000 }), (waits, zero) => {
        const window = new RollingWindow(1_000, 10)
        const added: number[] = []
        let now = zero
        for (const wait of waits) {
          now += wait
          window.add(now)
          added.push(now)
          const firstBucket = Math.floor(now / 100) - 9
          expect(window.total(now)).toBe(added.filter((time) => Math.floor(time / 100) >= firstBucket).length)
        }
      }),
    )
  })
})
