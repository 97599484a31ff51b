import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  CircuitBreaker,
  type CircuitBreakerOptions,
  type CircuitTransition,
  type FailureKind,
  type Permit,
} from '../../src/breaker/circuit-breaker.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { circuitBreakerDefaults } from './defaults.ts'

function setUp(options: Partial<CircuitBreakerOptions> = {}) {
  const clock = new ManualClock()
  const transitions: CircuitTransition[] = []
  const settings = { ...circuitBreakerDefaults, jitter: 0, ...options }
  const breaker = new CircuitBreaker(settings, clock, (transition) => transitions.push(transition))
  return { clock, breaker, transitions }
}

function acquire(breaker: CircuitBreaker): Permit {
  const permit = breaker.tryAcquire()
  if (permit === undefined) throw new Error(`expected a permit, got none (${breaker.state()})`)
  return permit
}

function trip(breaker: CircuitBreaker, kind: FailureKind = 'timeout'): void {
  for (let failure = 0; failure < 5; failure += 1) acquire(breaker).failure(kind, 1n)
}

describe('closed', () => {
  it('lets any number through and opens when the rule says so', () => {
    const { breaker, transitions } = setUp()
    expect(breaker.state()).toBe('closed')
    expect(breaker.openedBy()).toBeUndefined()
    expect(breaker.retryAt()).toBeUndefined()
    trip(breaker)
    expect(breaker.state()).toBe('open')
    expect(breaker.openedBy()).toBe('answers')
    expect(breaker.retryAt()).toBe(5_000)
    expect(transitions).toEqual([{ from: 'closed', to: 'open', cause: 'timeout' }])
  })

  it('is told apart by connects when it opens', () => {
    const { breaker } = setUp()
    trip(breaker, 'connect')
    expect(breaker.openedBy()).toBe('connect')
  })

  it('counts neither an ignored request nor the head of an answer', () => {
    const { breaker } = setUp()
    for (let failure = 0; failure < 4; failure += 1) acquire(breaker).failure('reset', 1n)
    acquire(breaker).ignore()
    const streaming = acquire(breaker)
    streaming.responding()
    streaming.failure('reset', 1n)
    expect(breaker.state()).toBe('open')
  })

  it('counts only the first result of a permit', () => {
    const { breaker } = setUp()
    const permit = acquire(breaker)
    permit.ignore()
    for (let again = 0; again < 50; again += 1) permit.failure('timeout', 1n)
    expect(breaker.state()).toBe('closed')
  })
})

describe('open', () => {
  it('lets nothing through before its time, and reading does not change it', () => {
    const { breaker, clock, transitions } = setUp()
    trip(breaker)
    clock.advance(4_999)
    expect(breaker.tryAcquire()).toBeUndefined()
    clock.advance(1)
    expect(breaker.state()).toBe('half-open')
    expect(breaker.retryAt()).toBeUndefined()
    expect(breaker.openedBy()).toBe('answers')
    expect(transitions).toHaveLength(1)
    acquire(breaker)
    expect(transitions.at(-1)).toEqual({ from: 'open', to: 'half-open' })
  })

  it('grows from trip to trip, and shrinks again while closed', () => {
    const { breaker, clock } = setUp()
    const opened: (number | undefined)[] = []
    const openFor = () => {
      const until = breaker.retryAt() ?? Number.NaN
      opened.push(until - clock.now())
      clock.advance(until - clock.now())
    }
    trip(breaker)
    openFor()
    acquire(breaker).failure('reset', 1n)
    openFor()
    acquire(breaker).success()
    trip(breaker)
    openFor()
    acquire(breaker).success()
    clock.advance(20_000)
    trip(breaker)
    openFor()
    expect(opened).toEqual([5_000, 10_000, 20_000, 10_000])
  })
})

describe('half-open', () => {
  function halfOpen(options: Partial<CircuitBreakerOptions> = {}) {
    const made = setUp(options)
    trip(made.breaker)
    made.clock.advance(5_000)
    return made
  }

  it('lets one probe out at a time and closes when it succeeds', () => {
    const { breaker, transitions } = halfOpen()
    const probe = acquire(breaker)
    expect(breaker.tryAcquire()).toBeUndefined()
    probe.success()
    expect(breaker.state()).toBe('closed')
    expect(transitions.at(-1)).toEqual({ from: 'half-open', to: 'closed' })
  })

  it('opens again when the probe fails, for the reason of the probe', () => {
    const { breaker, transitions } = halfOpen()
    acquire(breaker).failure('connect', 1n)
    expect(breaker.state()).toBe('open')
    expect(breaker.openedBy()).toBe('connect')
    expect(transitions.at(-1)).toEqual({ from: 'half-open', to: 'open', cause: 'connect' })
  })

  it('closes at the head of a good answer, whatever becomes of its body', () => {
    const { breaker } = halfOpen()
    const probe = acquire(breaker)
    probe.responding()
    expect(breaker.state()).toBe('closed')
    for (let again = 0; again < 50; again += 1) probe.failure('reset', 1n)
    expect(breaker.state()).toBe('closed')
  })

  it('gets an ignored probe back', () => {
    const { breaker } = halfOpen()
    const probe = acquire(breaker)
    probe.ignore()
    probe.ignore()
    expect(breaker.state()).toBe('half-open')
    acquire(breaker)
    expect(breaker.tryAcquire()).toBeUndefined()
  })

  it('lets out as many probes as configured', () => {
    const { breaker } = halfOpen({ halfOpenProbes: 3 })
    const probes = [acquire(breaker), acquire(breaker), acquire(breaker)]
    expect(breaker.tryAcquire()).toBeUndefined()
    probes[1]?.success()
    probes[0]?.failure('timeout', 1n)
    expect(breaker.state()).toBe('closed')
  })

  it('starts counting anew once closed', () => {
    const { breaker } = halfOpen()
    acquire(breaker).success()
    for (let failure = 0; failure < 4; failure += 1) acquire(breaker).failure('timeout', 1n)
    expect(breaker.state()).toBe('closed')
  })
})

describe('stale permits', () => {
  it('of before the trip cannot open a half-open breaker (cockatiel 3.2.1 does)', () => {
    const { breaker, clock } = setUp()
    const late = acquire(breaker)
    trip(breaker)
    clock.advance(5_000)
    const probe = acquire(breaker)
    late.failure('timeout', 1n)
    expect(breaker.state()).toBe('half-open')
    probe.success()
    expect(breaker.state()).toBe('closed')
  })

  it('of an earlier closed time do not count in a later one', () => {
    const { breaker, clock } = setUp()
    const late = Array.from({ length: 20 }, () => acquire(breaker))
    trip(breaker)
    clock.advance(5_000)
    acquire(breaker).success()
    for (const permit of late) permit.failure('timeout', 1n)
    expect(breaker.state()).toBe('closed')
  })
})

it('nodeshift/opossum#119, #385, #819: one probe reaches a hanging upstream, 49 go on to the next owner', () => {
  const { breaker, clock, transitions } = setUp({ openMs: 200 })
  const first = Array.from({ length: 50 }, () => acquire(breaker))
  for (const permit of first) permit.failure('timeout', 1n)
  expect(transitions).toHaveLength(1)

  clock.advance(200)
  const probes = Array.from({ length: 50 }, () => breaker.tryAcquire()).filter(
    (permit) => permit !== undefined,
  )
  expect(probes).toHaveLength(1)
  probes[0]?.failure('timeout', 1n)
  expect(breaker.state()).toBe('open')

  clock.advance(400)
  const goodProbe = acquire(breaker)
  for (const permit of [...first, ...probes]) {
    permit.failure('timeout', 1n)
    permit.success()
  }
  expect(breaker.state()).toBe('half-open')
  goodProbe.success()
  expect(breaker.state()).toBe('closed')
  expect(transitions.map(({ to }) => to)).toEqual(['open', 'half-open', 'open', 'half-open', 'closed'])
})

describe('laws', () => {
  const kind = fc.constantFrom<FailureKind>('connect', 'reset', 'timeout', 'status')
  const step = fc.oneof(
    { weight: 4, arbitrary: fc.record({ do: fc.constant('acquire' as const) }) },
    {
      weight: 4,
      arbitrary: fc.record({
        do: fc.constant('fail' as const),
        which: fc.nat(),
        kind,
        key: fc.bigInt(0n, 4n),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({ do: fc.constantFrom('succeed', 'ignore', 'respond'), which: fc.nat() }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        do: fc.constant('wait' as const),
        milliseconds: fc.integer({ min: 0, max: 8_000 }),
      }),
    },
  )

  it('no request passes before the deadline, and stale permits change nothing', () => {
    fc.assert(
      fc.property(
        fc.array(step, { maxLength: 120 }),
        fc.integer({ min: 1, max: 3 }),
        (steps, halfOpenProbes) => {
          const { breaker, clock, transitions } = setUp({ jitter: 0.5, halfOpenProbes })
          const issued: { permit: Permit; generation: number }[] = []
          for (const action of steps) {
            const before = transitions.length
            if (action.do === 'wait') clock.advance(action.milliseconds)
            else if (action.do === 'acquire') {
              const deadline = breaker.retryAt()
              const permit = breaker.tryAcquire()
              if (deadline !== undefined) {
                expect(clock.now()).toBeLessThan(deadline)
                expect(permit).toBeUndefined()
              }
              if (permit !== undefined) issued.push({ permit, generation: transitions.length })
            } else {
              const used = issued[action.which % Math.max(1, issued.length)]
              if (used === undefined) continue
              if (action.do === 'fail') used.permit.failure(action.kind, action.key)
              else if (action.do === 'succeed') used.permit.success()
              else if (action.do === 'ignore') used.permit.ignore()
              else used.permit.responding()
              if (used.generation !== before) expect(transitions).toHaveLength(before)
            }
            if (transitions.length > before && transitions.at(-1)?.to === 'open') {
              expect((breaker.retryAt() ?? 0) - clock.now()).toBeGreaterThanOrEqual(5_000)
            }
          }
          for (const [index, { from }] of transitions.entries()) {
            expect(from).toBe(index === 0 ? 'closed' : transitions[index - 1]?.to)
          }
        },
      ),
    )
  })

  it('stale permits leave a breaker as one that never gave them out', () => {
    fc.assert(
      fc.property(fc.array(kind, { maxLength: 30 }), fc.array(kind, { maxLength: 4 }), (late, fresh) => {
        const outcomes = [late, []].map((lateResults) => {
          const { breaker, clock } = setUp()
          const stale = lateResults.map((result) => ({ result, permit: acquire(breaker) }))
          trip(breaker)
          clock.advance(5_000)
          acquire(breaker).success()
          for (const { result, permit } of stale) permit.failure(result, 9n)
          for (const result of fresh) acquire(breaker).failure(result, 1n)
          return [breaker.state(), breaker.openedBy(), breaker.retryAt()]
        })
        expect(outcomes[0]).toEqual(outcomes[1])
      }),
    )
  })
})
