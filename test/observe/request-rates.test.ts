import { expect, test } from 'vitest'
import { silentLogger } from '../../src/logger.ts'
import { ProxyEventEmitter } from '../../src/observe/events.ts'
import { RequestRates } from '../../src/observe/request-rates.ts'
import { ManualClock } from '../support/manual-clock.ts'

const ended = { status: 200, milliseconds: 1, outcome: 'answered' } as const

test('rates are the mean of the last five whole seconds, and none are left of what had none', () => {
  const clock = new ManualClock()
  const events = new ProxyEventEmitter(silentLogger)
  const rates = new RequestRates(events, clock)
  const request = (upstream: string | undefined, count: number) => {
    for (let each = 0; each < count; each += 1) events.emit('request', { ...ended, upstream })
  }
  expect(rates.read()).toEqual({})
  for (let second = 0; second < 20; second += 1) {
    request('a', 10)
    request('b', second < 10 ? 5 : 0)
    request(undefined, 3)
    clock.advance(1000)
    // 5 a second until the tenth, then one fifth less each second.
    const b = second < 10 ? Math.min(second + 1, 5) : Math.max(0, 14 - second)
    const expected = { a: 2 * Math.min(second + 1, 5), ...(b > 0 && { b }) }
    expect(rates.read()).toEqual(expected)
  }
  clock.advance(4000)
  expect(rates.read()).toEqual({ a: 2 })
  clock.advance(1_000_000)
  expect(rates.read()).toEqual({})
})
