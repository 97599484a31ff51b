import { describe, expect, it } from 'vitest'
import type { FailureKind } from '../../src/breaker/failure-kind.ts'
import { TripPolicy } from '../../src/breaker/trip-policy.ts'
import { circuitBreakerDefaults } from './defaults.ts'

const byRate = { ...circuitBreakerDefaults, consecutiveFailures: Number.POSITIVE_INFINITY }

/** What the last of these failures leads to. */
function failures(policy: TripPolicy, kinds: readonly FailureKind[], keys: readonly bigint[] = [1n]) {
  return kinds.map((kind, index) => policy.failure(kind, keys[index % keys.length] ?? 0n, 0)).at(-1)
}

const times = <T>(count: number, value: T): T[] => Array.from({ length: count }, () => value)

describe('consecutive failures', () => {
  it('trips on the fifth and not before', () => {
    const policy = new TripPolicy(circuitBreakerDefaults)
    expect(failures(policy, times(4, 'timeout'))).toBeUndefined()
    expect(failures(policy, ['timeout'])).toBe('answers')
  })

  it('starts again after a success', () => {
    const policy = new TripPolicy(circuitBreakerDefaults)
    failures(policy, times(4, 'timeout'))
    policy.success(0)
    expect(failures(policy, times(4, 'timeout'))).toBeUndefined()
    expect(failures(policy, ['timeout'])).toBe('answers')
  })

  it('lasts longer than the window: a quiet upstream is not forgiven', () => {
    const policy = new TripPolicy(circuitBreakerDefaults)
    for (let hour = 0; hour < 4; hour += 1)
      expect(policy.failure('reset', 1n, hour * 3_600_000)).toBeUndefined()
    expect(policy.failure('reset', 1n, 4 * 3_600_000)).toBe('answers')
  })
})

describe('failure rate', () => {
  it('says nothing below the minimum of requests', () => {
    const policy = new TripPolicy(byRate)
    expect(failures(policy, times(19, 'timeout'))).toBeUndefined()
    expect(failures(policy, ['timeout'])).toBe('answers')
  })

  it('trips at exactly the percentage', () => {
    const policy = new TripPolicy(byRate)
    for (let step = 0; step < 10; step += 1) policy.success(0)
    for (let step = 0; step < 9; step += 1) expect(failures(policy, ['timeout'])).toBeUndefined()
    expect(failures(policy, ['timeout'])).toBe('answers')
  })

  it('does not trip just below the percentage', () => {
    const policy = new TripPolicy(byRate)
    for (let step = 0; step < 21; step += 1) policy.success(0)
    expect(failures(policy, times(20, 'timeout'))).toBeUndefined()
  })

  it('forgets what has left the window', () => {
    const policy = new TripPolicy(byRate)
    failures(policy, times(19, 'timeout'))
    expect(policy.failure('timeout', 1n, 10_000)).toBeUndefined()
  })
})

describe('statuses', () => {
  it('of one or two keys never trip, however many', () => {
    expect(failures(new TripPolicy(circuitBreakerDefaults), times(1_000, 'status'))).toBeUndefined()
    expect(failures(new TripPolicy(circuitBreakerDefaults), times(1_000, 'status'), [1n, 2n])).toBeUndefined()
  })

  it('of three keys trip', () => {
    const policy = new TripPolicy(circuitBreakerDefaults)
    expect(failures(policy, times(4, 'status'), [1n, 2n, 3n])).toBeUndefined()
    expect(failures(policy, ['status'], [1n])).toBe('answers')
  })

  it('need the three keys among the failures that trip, not among earlier ones', () => {
    const policy = new TripPolicy(circuitBreakerDefaults)
    failures(policy, ['status', 'status'], [1n, 2n])
    policy.success(0)
    expect(failures(policy, times(9, 'status'), [3n])).toBeUndefined()
  })

  it('need three keys within the window to trip by rate', () => {
    const policy = new TripPolicy(byRate)
    failures(policy, ['status', 'status'], [1n, 2n])
    for (let step = 0; step < 30; step += 1) expect(policy.failure('status', 3n, 15_000)).toBeUndefined()
    expect(policy.failure('status', 4n, 15_000)).toBeUndefined()
    expect(policy.failure('status', 5n, 15_000)).toBe('answers')
  })

  it('neither break nor feed a streak of hard failures of one key', () => {
    const policy = new TripPolicy(circuitBreakerDefaults)
    for (let step = 0; step < 4; step += 1) expect(failures(policy, ['reset', 'status'])).toBeUndefined()
    expect(failures(policy, ['reset'])).toBe('answers')
  })

  it('of a poisonous key do not hide that half of the other requests fail', () => {
    const policy = new TripPolicy(byRate)
    for (let step = 0; step < 200; step += 1) policy.failure('status', 7n, 0)
    for (let step = 0; step < 10; step += 1) policy.success(0)
    expect(failures(policy, times(9, 'timeout'), [7n])).toBeUndefined()
    expect(failures(policy, ['timeout'], [7n])).toBe('answers')
  })
})

describe('cause', () => {
  it('is connect when every triggering failure was one', () => {
    expect(failures(new TripPolicy(circuitBreakerDefaults), times(5, 'connect'))).toBe('connect')
    expect(failures(new TripPolicy(byRate), times(20, 'connect'))).toBe('connect')
  })

  it('is answers when a single one was not', () => {
    const streak: FailureKind[] = ['connect', 'reset', 'connect', 'connect', 'connect']
    expect(failures(new TripPolicy(circuitBreakerDefaults), streak)).toBe('answers')
    expect(failures(new TripPolicy(byRate), ['reset', ...times(19, 'connect' as const)])).toBe('answers')
  })

  it('looks at the streak alone, not at failures before the last success', () => {
    const policy = new TripPolicy(circuitBreakerDefaults)
    failures(policy, ['timeout'])
    policy.success(0)
    expect(failures(policy, times(5, 'connect'))).toBe('connect')
  })
})
