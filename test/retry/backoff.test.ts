import { expect, it } from 'vitest'
import { backoffDelay } from '../../src/retry/backoff.ts'

const options = { baseMs: 25, maxMs: 250 }

it('doubles its upper bound up to the maximum', () => {
  const almostOne = 1 - 2 ** -53
  const bounds = [1, 2, 3, 4, 5, 50, 5_000].map((retry) => backoffDelay(retry, options, () => almostOne))
  expect(bounds.map(Math.round)).toEqual([25, 50, 100, 200, 250, 250, 250])
})

it('spreads evenly from 0: full jitter', () => {
  expect([0, 0.25, 0.5].map((chance) => backoffDelay(3, options, () => chance))).toEqual([0, 25, 50])
})
