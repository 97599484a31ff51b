import fc from 'fast-check'
import { expect, it } from 'vitest'
import { RecentKeys } from '../../src/breaker/recent-keys.ts'

it('answers as if it remembered every key', () => {
  const step = fc.record({ wait: fc.integer({ min: 0, max: 3 }), key: fc.bigInt({ min: 0n, max: 5n }) })
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 4 }), fc.array(step, { maxLength: 60 }), (enough, steps) => {
      const recent = new RecentKeys(enough)
      const all: { key: bigint; at: number }[] = []
      let now = 0
      for (const { wait, key } of steps) {
        now += wait
        recent.add(key, now)
        all.push({ key, at: now })
        for (let since = now - 8; since <= now + 1; since += 1) {
          const different = new Set(all.filter(({ at }) => at >= since).map((seen) => seen.key))
          expect(recent.enoughSince(since)).toBe(different.size >= enough)
        }
      }
      recent.clear()
      expect(recent.enoughSince(Number.NEGATIVE_INFINITY)).toBe(false)
    }),
  )
})
