import { describe, expect, it } from 'vitest'
import {
  consistentHashProxy,
  etcdTopology,
  fileTopology,
  OptionsError,
  registerUpstream,
} from '../../src/index.ts'

const etcd = { hosts: 'http://127.0.0.1:2379', prefix: '/a/' }

/** What is written in plain JavaScript, where no compiler looks. */
const cases: readonly [name: string, make: () => unknown, message: RegExp][] = [
  [
    'etcdTopology',
    () => etcdTopology({ ...etcd, snapshotfile: 'a' } as typeof etcd),
    /`snapshotfile`.*`snapshotFile`/,
  ],
  [
    'etcdTopology',
    () => etcdTopology({ ...etcd, gracePeriod: 1 } as typeof etcd),
    /`gracePeriod`.*`gracePeriodMs`/,
  ],
  [
    'fileTopology',
    () => fileTopology({ path: 'a', polIntervalMs: 1 } as { path: string }),
    /`pollIntervalMs`/,
  ],
  [
    'registerUpstream',
    () => registerUpstream({ ...etcd, upstream: 'http://a', ttlSecond: 1 } as never),
    /`ttlSecond`.*`ttlSeconds`/,
  ],
  ['etcdTopology', () => etcdTopology(undefined as never), /got undefined/],
  ['fileTopology', () => fileTopology(null as never), /got null/],
  ['registerUpstream', () => registerUpstream('a' as never), /got a/],
  [
    'consistentHashProxy',
    () => consistentHashProxy(undefined as never),
    /object with options, got undefined/,
  ],
]

describe('an option that does not exist, or no options at all', () => {
  it.each(cases)('of %s is one clear error: %s', (_name, make, message) => {
    expect(make).toThrow(OptionsError)
    expect(make).toThrow(message)
  })
})

it('an option that is undefined is one that is not given', () => {
  expect(
    etcdTopology({ ...etcd, snapshotFile: undefined, gracePeriodMs: undefined, tls: undefined }).kind,
  ).toBe('etcd')
})
