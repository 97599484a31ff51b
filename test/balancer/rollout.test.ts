import { expect, test } from 'vitest'
import { Rollout } from '../../src/balancer/rollout.ts'
import type { Steps } from '../../src/steps.ts'
import { ManualClock } from '../support/manual-clock.ts'

/** A rollout of builds whose every step takes `stepMs` on its clock, and what it did. */
function makeRollout(steps: number, stepMs: number) {
  const clock = new ManualClock()
  let worked = 0
  const used: string[] = []
  const failed: unknown[] = []
  function* build(name: string): Steps<void> {
    for (let step = 1; step <= steps; step += 1) {
      worked += stepMs
      if (name.startsWith('bad')) throw new Error(name)
      if (step < steps) yield
    }
    used.push(name)
  }
  const rollout = new Rollout<string>(build, (error) => failed.push(String(error)), {
    now: () => clock.now() + worked,
    setTimeout: (callback, milliseconds) => clock.setTimeout(callback, milliseconds),
    random: clock.random,
  })
  return { rollout, used, failed, clock }
}

const turn = () => new Promise((resolve) => setImmediate(resolve))

test('what takes no longer than a slice is in use at once, and the next one as well', async () => {
  const { rollout, used } = makeRollout(3, 0.5)
  rollout.take('a')
  rollout.take('b')
  expect(used).toEqual(['a', 'b'])
  await rollout.settled()
})

test('a long build goes on turn by turn, and of what comes meanwhile only the newest is built, behind a rest', async () => {
  const { rollout, used, clock } = makeRollout(29, 1)
  rollout.take('a')
  for (const name of ['b', 'c', 'd']) rollout.take(name)
  const settled = rollout.settled().then(() => used.push('settled'))
  let turns = 0
  for (; used.length === 0; turns += 1) await turn()
  expect(turns).toBe(3) // twenty of the steps at once, and then three to a slice
  for (let more = 0; more < 10; more += 1) await turn()
  expect(used).toEqual(['a'])
  clock.advance(115)
  expect(used).toEqual(['a'])
  clock.advance(1)
  await settled
  expect(used).toEqual(['a', 'd', 'settled'])
})

test('a build that throws is told, and the next one goes on', () => {
  const { rollout, used, failed } = makeRollout(2, 0)
  rollout.take('bad one')
  rollout.take('good one')
  expect(failed).toEqual(['Error: bad one'])
  expect(used).toEqual(['good one'])
})

test('closed it gives up what is not in use, and whoever waits goes on', async () => {
  const { rollout, used, clock } = makeRollout(29, 1)
  rollout.take('a')
  const settled = rollout.settled()
  rollout.close()
  await settled
  await turn()
  clock.advance(1_000)
  expect(used).toEqual([])
  expect(clock.pendingTimers).toBe(0)
})
