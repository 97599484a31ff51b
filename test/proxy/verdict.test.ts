import { describe, expect, it } from 'vitest'
import { isIdempotent, judge, type RequestFacts } from '../../src/proxy/verdict.ts'
import type { HeadOutcome } from '../../src/transport/transport.ts'

const rules = { failureStatuses: new Set([502, 503, 504]), retryStatuses: new Set([503, 500]) }
const facts: RequestFacts = { idempotent: true, replayable: true, isReplay: false, hurried: false }
const error = new Error('expected by the test')

const answer = (status: number): HeadOutcome => ({
  kind: 'responded',
  response: {
    ...{ status, statusText: '', rawHeaders: [] },
  },
})
const outcomes = {
  connectFailed: { kind: 'connectFailed', error },
  staleSocket: { kind: 'staleSocket', error },
  broken: { kind: 'broken', error },
  timedOut: { kind: 'timedOut' },
  aborted: { kind: 'aborted' },
} satisfies Record<string, HeadOutcome>

const respond = { step: 'respond' }
const replay = { step: 'replay' }
const fail = (giveUp?: string) => ({ step: 'fail', giveUp })
const unsent = (reason: string) => ({ step: 'retry', reason, sent: false, stale: true })
const sent = (reason: string) => ({ step: 'retry', reason, sent: true, stale: false })

const unsafe = { idempotent: false }
const consumed = { replayable: false }
const hurried = { hurried: true }
const onFreshConnection = { isReplay: true }

type Row = [name: string, outcome: HeadOutcome, facts: Partial<RequestFacts>, health: unknown, next: unknown]

describe('judge', () => {
  it.each<Row>([
    ['an answer', answer(200), {}, undefined, respond],
    ['500 that counts as no failure but is listed for retries', answer(500), {}, undefined, sent('status')],
    ['a failure status that is not listed', answer(502), {}, 'status', respond],
    ['a listed failure status', answer(503), {}, 'status', sent('status')],
    ['a listed status behind a POST', answer(503), unsafe, 'status', respond],
    ['a listed status behind a body that is gone', answer(503), consumed, 'status', respond],
    ['a listed status near the deadline', answer(503), hurried, 'status', sent('status')],
    ['421', answer(421), {}, 'ignore', unsent('misdirected')],
    ['421 to a POST', answer(421), unsafe, 'ignore', unsent('misdirected')],
    ['421 behind a body that is gone', answer(421), consumed, 'ignore', fail('body-consumed')],
    ['no connection', outcomes.connectFailed, {}, 'connect', unsent('connect')],
    ['no connection for a POST', outcomes.connectFailed, unsafe, 'connect', unsent('connect')],
    ['no connection near the deadline', outcomes.connectFailed, hurried, 'ignore', unsent('connect')],
    ['a stale socket', outcomes.staleSocket, {}, 'ignore', replay],
    ['a stale socket under a POST', outcomes.staleSocket, unsafe, 'ignore', fail('not-idempotent')],
    ['a stale socket that took the body', outcomes.staleSocket, consumed, 'ignore', fail('body-consumed')],
    ['a stale socket that was none', outcomes.staleSocket, onFreshConnection, 'reset', sent('reset')],
    ['a reset', outcomes.broken, {}, 'reset', sent('reset')],
    ['a reset under a POST', outcomes.broken, unsafe, 'reset', fail('not-idempotent')],
    ['a reset near the deadline', outcomes.broken, hurried, 'reset', sent('reset')],
    ['a reset that took the body', outcomes.broken, consumed, 'reset', fail('body-consumed')],
    ['no answer in time', outcomes.timedOut, {}, 'timeout', sent('timeout')],
    ['no answer to a POST', outcomes.timedOut, unsafe, 'timeout', fail('not-idempotent')],
    ['no answer near the deadline', outcomes.timedOut, hurried, 'ignore', sent('timeout')],
    ['given up by us', outcomes.aborted, {}, 'ignore', fail()],
  ])('%s', (_, outcome, known, health, next) => {
    expect(judge(outcome, { ...facts, ...known }, rules)).toEqual({ health, next })
  })
})

it.each([
  ['GET', undefined, true],
  ['HEAD', undefined, true],
  ['PUT', undefined, true],
  ['DELETE', undefined, true],
  ['OPTIONS', undefined, true],
  ['TRACE', undefined, true],
  ['POST', undefined, false],
  ['PATCH', undefined, false],
  ['get', undefined, false], // methods are case-sensitive (RFC 9110 §9.1)
  ['POST', '"8e03978e"', true],
])('RFC 9110 §9.2.2: %s with key %s', (method, key, expected) => {
  expect(isIdempotent(method, key)).toBe(expected)
})
