import { GRPCDeadlineExceededError, GRPCUnknownError } from 'etcd3'
import { expect, it } from 'vitest'
import { parseConnection } from '../../src/topology/etcd/connection.ts'
import { explain } from '../../src/topology/etcd/explain.ts'

const connection = parseConnection({ hosts: 'http://127.0.0.1:2379', prefix: '/p/' })

it.each([
  new GRPCDeadlineExceededError('4 DEADLINE_EXCEEDED: Deadline exceeded after 2.001s'),
  new GRPCDeadlineExceededError(
    '4 DEADLINE_EXCEEDED: Deadline exceeded after 1.999s,name resolution: 0.001s',
  ),
  // What a member without a majority answers when its own clock is the first to notice.
  new GRPCUnknownError('2 UNKNOWN: context deadline exceeded'),
])('a deadline that passed reads the same whoever noticed it: %s', (error) => {
  expect(explain(error, connection, 'http://etcd:2379')).toBe(
    'etcd at http://etcd:2379 did not answer in time',
  )
})
