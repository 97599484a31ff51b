import { expect, test } from 'vitest'
import type { Logger } from '../../src/logger.ts'
import { ProxyEventEmitter } from '../../src/observe/events.ts'
import { logEvents } from '../../src/observe/log-events.ts'
import { ManualClock } from '../support/manual-clock.ts'

test('10,000 refused entries are twenty lines in ten seconds and one that says so', () => {
  const lines: string[] = []
  const log = (_fields: object, message: string) => lines.push(message)
  const logger: Logger = { debug: log, info: log, warn: log, error: log }
  const clock = new ManualClock()
  const events = new ProxyEventEmitter(logger)
  logEvents(events, logger, clock)
  const refuse = (count: number) => {
    for (let entry = 0; entry < count; entry += 1) {
      events.emit('refused', { entry: `upstreams/${entry}`, reason: 'json', message: 'value: expected JSON' })
    }
  }
  refuse(10_000)
  expect(lines).toEqual([
    ...Array.from({ length: 20 }, () => 'a topology entry is refused'),
    'more topology entries are refused: they are counted, and not logged for 10 s',
  ])
  clock.advance(9_999)
  refuse(1)
  expect(lines).toHaveLength(21)
  clock.advance(1)
  refuse(1)
  expect(lines).toHaveLength(22)
})
