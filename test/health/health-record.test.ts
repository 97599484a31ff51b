import { expect, it } from 'vitest'
import { HealthRecord } from '../../src/health/health-record.ts'

/** The verdict after each of the results. */
function verdicts(results: string, thresholds = { healthyThreshold: 2, unhealthyThreshold: 3 }): string {
  const record = new HealthRecord(thresholds)
  let verdict = record.healthy
  return [...results]
    .map((result) => {
      const changed = record.record(result === '+')
      expect(changed).toBe(record.healthy !== verdict)
      verdict = record.healthy
      return verdict ? 'H' : 'u'
    })
    .join('')
}

it('needs as many results in a row as the thresholds say, both ways', () => {
  expect(verdicts('--+---+-++--')).toBe('HHHHHuuuuHHH')
})

it('obeys the first result with thresholds of 1', () => {
  expect(verdicts('-+-+', { healthyThreshold: 1, unhealthyThreshold: 1 })).toBe('uHuH')
})
