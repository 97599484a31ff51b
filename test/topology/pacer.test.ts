import { expect, it } from 'vitest'
import { Pacer } from '../../src/topology/pacer.ts'
import { ManualClock } from '../support/manual-clock.ts'

/** A pacer whose work takes `cost` milliseconds by the clock that it sees, and when that ran. */
function makePacer(cost: number) {
  const clock = new ManualClock()
  const runs: number[] = []
  let worked = 0
  const pacer = new Pacer(
    () => {
      runs.push(clock.now() + worked)
      worked += cost
    },
    {
      now: () => clock.now() + worked,
      setTimeout: (callback, milliseconds) => clock.setTimeout(callback, milliseconds),
      random: clock.random,
    },
  )
  return { clock, runs, pacer }
}

it('runs at once, then rests four times as long as it worked', () => {
  const { clock, runs, pacer } = makePacer(10)
  for (let ask = 0; ask < 1000; ask += 1) pacer.ask()
  expect(runs).toEqual([0])
  clock.advance(39)
  expect(runs).toEqual([0])
  clock.advance(1)
  expect(runs).toEqual([0, 50])
  clock.advance(1000)
  expect(runs).toEqual([0, 50])
  pacer.ask()
  expect(runs).toEqual([0, 50, 1060])
})

it('never rests for longer than 500 ms', () => {
  const { clock, runs, pacer } = makePacer(5000)
  pacer.ask()
  pacer.ask()
  clock.advance(499)
  expect(runs).toEqual([0])
  clock.advance(1)
  expect(runs).toEqual([0, 5500])
})

it('makes nobody wait whose work takes no time', () => {
  const { runs, pacer } = makePacer(0)
  pacer.ask()
  pacer.ask()
  expect(runs).toEqual([0, 0])
})

it('flushes what waits, once, and runs nothing after it was closed', () => {
  const { clock, runs, pacer } = makePacer(10)
  pacer.flush()
  expect(runs).toEqual([])
  pacer.ask()
  pacer.ask()
  pacer.flush()
  pacer.flush()
  expect(runs).toEqual([0, 10])
  pacer.ask()
  pacer.close()
  pacer.flush()
  clock.advance(1000)
  expect(runs).toEqual([0, 10])
  expect(clock.pendingTimers).toBe(0)
})
