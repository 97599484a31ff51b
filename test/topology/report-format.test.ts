import { describe, expect, it } from 'vitest'
import { OptionsError } from '../../src/errors.ts'
import { parseReport } from '../../src/topology/etcd/gateway-reports.ts'
import { disagreeing, encodeReport } from '../../src/topology/etcd/report-format.ts'
import type { GatewayReport } from '../../src/topology/topology.ts'

const ours: GatewayReport = {
  ...{ epoch: 1, revision: 2n ** 60n, digest: 'd', degraded: false },
  settings: { virtualNodes: 160, seed: 's' },
  requestsPerSecond: { u1: 0.4 },
}

describe('disagreeing', () => {
  it.each<[string, Partial<GatewayReport> | string, boolean]>([
    ['an equal one', {}, false],
    ['one that is degraded and busy, but equal', { degraded: true, requestsPerSecond: {} }, false],
    ['another digest at our revision', { digest: 'e' }, true],
    ['another digest one revision before', { digest: 'e', revision: 2n ** 60n - 1n }, false],
    ['another digest in another epoch', { digest: 'e', epoch: 0 }, false],
    [
      'other settings, at whatever revision',
      { settings: { virtualNodes: 160, seed: 't' }, revision: 1n },
      true,
    ],
    ['fewer settings', { settings: { virtualNodes: 160 } }, true],
    ['what is no JSON', 'x', false],
    ['what is no report', '{"digest":"e"}', false],
    ['a list', '[]', false],
  ])('%s: %s', (_name, theirs, expected) => {
    const value = typeof theirs === 'string' ? theirs : encodeReport({ ...ours, ...theirs })
    expect(disagreeing(ours, new Map([['g', Buffer.from(value)]]))).toEqual(expected ? ['g'] : [])
  })

  it('names all of them, in order', () => {
    const other = Buffer.from(encodeReport({ ...ours, digest: 'e' }))
    const same = Buffer.from(encodeReport(ours))
    const reports = new Map([
      ['c', other],
      ['b', same],
      ['a', other],
    ])
    expect(disagreeing(ours, reports)).toEqual(['a', 'c'])
  })
})

describe('parseReport', () => {
  it('is on by default', () => {
    expect(parseReport()).toEqual({ intervalMs: 3000, gatewayId: undefined })
    expect(parseReport(false)).toBe(false)
    expect(parseReport({ intervalMs: 50, gatewayId: 'g 1' })).toEqual({ intervalMs: 50, gatewayId: 'g 1' })
  })
  it.each([
    [{ intervalMs: 0 }, 'report.intervalMs: expected 1 to 2147483647 milliseconds, got 0'],
    [
      { gatewayId: 'a/b' },
      'report.gatewayId: expected 1 to 256 characters, no / and no control characters, got "a/b"',
    ],
    [
      { gatewayId: '' },
      'report.gatewayId: expected 1 to 256 characters, no / and no control characters, got ""',
    ],
  ])('refuses %j', (option, message) => {
    expect(() => parseReport(option)).toThrow(new OptionsError(message))
  })
})
