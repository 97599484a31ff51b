import { expect, test } from 'vitest'
import { parseOptions } from '../../src/config.ts'
import type { ConsistentHashProxyOptions } from '../../src/index.ts'
import { ScriptedTopology } from '../support/scripted-topology.ts'

const options = (): ConsistentHashProxyOptions => ({
  key: 'ip',
  topology: new ScriptedTopology(),
  healthCheck: {},
  circuitBreaker: { statuses: [503] },
  trustedProxies: ['loopback'],
})

/** Paths of plain objects and lists that could still be changed. */
function changeable(value: unknown, path = ''): string[] {
  const isPlain = Array.isArray(value) || Object.getPrototypeOf(value ?? 0) === Object.prototype
  if (typeof value !== 'object' || value === null || !isPlain) return []
  const inner = Object.entries(value).flatMap(([name, field]) => changeable(field, `${path}.${name}`))
  return Object.isFrozen(value) ? inner : [path, ...inner]
}

test('parsed options cannot be changed, the caller’s own objects stay as they are', () => {
  const given = options()
  // The logger and the clock are whole objects of somebody else: the proxy calls them and nothing more.
  expect(changeable(parseOptions(given))).toEqual(['.logger', '.clock'])
  expect(changeable(given)).toContain('.circuitBreaker')
})

test('a later change of what was given changes nothing', () => {
  const statuses = [503]
  const trustedProxies = ['loopback']
  const retry = { attempts: 1 }
  const config = parseOptions({ ...options(), circuitBreaker: { statuses }, trustedProxies, retry })
  statuses.push(500)
  trustedProxies.push('10.0.0.0/8')
  retry.attempts = 9
  expect(config.circuitBreaker.statuses).toEqual([503])
  expect(config.trustedProxies).toEqual(['loopback'])
  expect(config.retry.attempts).toBe(1)
})

test('`undefined` is as good as left out, in groups and within', () => {
  const without = parseOptions(options())
  const undefinedOptions = { ring: undefined, boundedLoad: undefined, retry: { attempts: undefined } }
  expect(parseOptions({ ...options(), ...undefinedOptions })).toEqual({
    ...without,
    topology: expect.anything(),
  })
})
