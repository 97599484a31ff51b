import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Registry } from 'prom-client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { optionsSchema } from '../../src/config.ts'
import {
  type ConsistentHashProxyOptions,
  consistentHashProxy,
  OptionsError,
  staticTopology,
} from '../../src/index.ts'
import { optionGroup } from '../../src/option-issues.ts'
import { ScriptedTopology } from '../support/scripted-topology.ts'

const valid = { key: 'ip', topology: new ScriptedTopology() }

/** The message of the error that these options are refused with at construction. */
function refusal(options: Record<string, unknown>): string {
  try {
    void consistentHashProxy({ ...valid, ...options } as unknown as ConsistentHashProxyOptions).close()
  } catch (error) {
    if (error instanceof OptionsError) return error.message
    throw error
  }
  return 'accepted'
}

const nested = (path: string, value: unknown): Record<string, unknown> =>
  path.split('.').reduceRight<unknown>((inner, name) => ({ [name]: inner }), value) as Record<string, unknown>

const wrongValues: [option: string, value: unknown, expected: string, shown?: string][] = [
  ['key', 5, "a key source, its string form such as 'header:x-user-id', or a function"],
  ['topology', ['http://127.0.0.1'], 'a topology source such as staticTopology([…])', 'a list'],
  ['ring', null, 'an object with options'],
  ['ring.virtualNodes', 0, 'at least 1'],
  ['ring.virtualNodes', 10_001, 'at most 10000'],
  ['ring.virtualNodes', 1.5, 'a whole number'],
  ['ring.virtualNodes', Number.NaN, 'a finite number'],
  ['ring.hash', 'md5', "'xxh64'", "'md5'"],
  ['ring.seed', -1, 'at least 0', 'another number'],
  ['ring.seed', 2n ** 64n, 'at most 18446744073709551615', 'another bigint'],
  ['ring.seed', 'secret', 'a finite number or a bigint', 'another string'],
  ['ring.hashTags', 'yes', 'true or false', "'yes'"],
  ['boundedLoad', true, 'false or an object with options'],
  ['boundedLoad.factor', 0.99, 'at least 1'],
  ['boundedLoad.floor', -1, 'at least 0'],
  ['boundedLoad.overflow', 'nxt', "'next' or 'reject'", "'nxt'"],
  ['circuitBreaker', [], 'an object with options', 'a list'],
  ['circuitBreaker.consecutiveFailures', 0, 'at least 1'],
  ['circuitBreaker.failureRatePercent', 101, 'at most 100'],
  ['circuitBreaker.minimumRequests', 0, 'at least 1'],
  ['circuitBreaker.windowMs', 0, 'at least 1'],
  ['circuitBreaker.openMs', 2 ** 31, 'at most 2147483647'],
  ['circuitBreaker.maxOpenMs', '5s', 'a finite number', "'5s'"],
  ['circuitBreaker.jitter', 1.1, 'at most 1'],
  ['circuitBreaker.halfOpenProbes', 0, 'at least 1'],
  ['circuitBreaker.distinctKeys', 0, 'at least 1'],
  ['circuitBreaker.statuses', 502, 'a list'],
  ['circuitBreaker.statuses.0', 99, 'at least 100'],
  ['circuitBreaker.maxEjectionPercent', -1, 'at least 0'],
  ['circuitBreaker.abandonedAfterMs', -1, 'at least 0'],
  ['retry', false, 'an object with options'],
  ['retry.attempts', 11, 'at most 10'],
  ['retry.hostPolicy', 'other', "'next' or 'same'", "'other'"],
  ['retry.statuses.0', 600, 'at most 599'],
  ['retry.perTryTimeoutMs', 0, 'at least 1'],
  ['retry.backoff', 50, 'an object with options'],
  ['retry.backoff.baseMs', -1, 'at least 0'],
  ['retry.backoff.maxMs', Number.POSITIVE_INFINITY, 'a finite number'],
  ['retry.budget', 20, 'an object with options'],
  ['retry.budget.percent', 101, 'at most 100'],
  ['retry.budget.minPerSecond', -1, 'at least 0'],
  ['healthCheck', true, 'false or an object with options'],
  ['healthCheck.path', 'healthz', 'a path that starts with /', "'healthz'"],
  ['healthCheck.intervalMs', 0, 'at least 1'],
  ['healthCheck.jitter', -0.1, 'at least 0'],
  ['healthCheck.timeoutMs', 0, 'at least 1'],
  ['healthCheck.healthyThreshold', 0, 'at least 1'],
  ['healthCheck.unhealthyThreshold', 0, 'at least 1'],
  ['healthCheck.expectedStatuses.0', 'ok', 'a finite number', "'ok'"],
  ['slowStart', 30_000, 'false or an object with options'],
  ['slowStart.durationMs', -1, 'at least 0'],
  ['timeouts', 5, 'an object with options'],
  ['timeouts.connectMs', 0, 'at least 1'],
  ['timeouts.firstByteMs', 0, 'at least 1'],
  ['timeouts.idleMs', 0, 'at least 1'],
  ['timeouts.totalMs', 0, 'at least 1'],
  ['timeouts.webSocketHandshakeMs', 0, 'at least 1'],
  ['timeouts.drainMs', -1, 'at least 0'],
  ['limits', 5, 'an object with options'],
  ['limits.requestHeaderBytes', 0, 'at least 1'],
  ['limits.keyBytes', 0, 'at least 1'],
  ['limits.replayBytes', -1, 'at least 0'],
  ['limits.connectionsPerUpstream', 0, 'at least 1'],
  ['limits.inFlight', 'all', 'a finite number or Infinity', "'all'"],
  ['limits.longLivedPerUpstream', 0.5, 'a whole number or Infinity'],
  ['limits.ringPoints', 9_000_000, 'at most 8000000'],
  ['transport', 'got', "'http-proxy' or 'undici'", "'got'"],
  ['upstreamTls', true, 'an object with options'],
  ['upstreamTls.ca', 5, 'a string or a Buffer or a list'],
  ['upstreamTls.cert', 'no PEM', 'a certificate in PEM', "'no PEM'"],
  ['upstreamTls.key', 'no PEM', 'a private key in PEM without passphrase', 'another string'],
  ['upstreamTls.servername', 5, 'a string'],
  ['hostHeader', 'keep', "'preserve' or 'upstream'", "'keep'"],
  ['rewritePath', '/x', 'a function', "'/x'"],
  ['onRequest', {}, 'a function', 'an object'],
  ['onResponse', [], 'a function', 'a list'],
  ['metrics', true, 'false or an object with options'],
  ['metrics.registry', {}, 'a prom-client Registry', 'an object'],
  ['metrics.prefix', '1_', 'letters, digits, _ and :, no digit first', "'1_'"],
  ['logger', console.log, 'a logger with debug, info, warn and error', 'a function'],
  ['onMissingKey', 'any', "'random' or 'reject' or a function", "'any'"],
  ['trustedProxies', '10.0.0.0/8', 'a list', "'10.0.0.0/8'"],
  ['forwardedHeaders.0', 'x-real-ip', "'x-forwarded' or 'forwarded' or 'via'", "'x-real-ip'"],
  ['exposeUpstreamId', 1, 'true or false'],
  ['mountPath', '/ws/', 'a path that starts with / and does not end with one', "'/ws/'"],
  ['longLived', true, 'a function'],
  ['clock', Date, 'a clock', 'a function'],
]

describe('a wrong value names the option, what was expected and what was given', () => {
  test.each(wrongValues)('%s: %s', (option, value, expected, shown = String(value)) => {
    const isElement = option.endsWith('.0')
    const options = nested(isElement ? option.slice(0, -2) : option, isElement ? [value] : value)
    expect(refusal(options)).toBe(`Expected \`${option}\` to be ${expected}, got ${shown}`)
  })

  test('the table has every option', () => {
    const paths = (schema: unknown, path: string): string[] =>
      Object.entries(optionGroup(schema)?.shape ?? {}).flatMap(([name, field]) => [
        path + name,
        ...paths(field, `${path + name}.`),
      ])
    const tried = new Set(wrongValues.map(([option]) => option.replace(/\.0$/, '')))
    expect(paths(optionsSchema, '').filter((path) => !tried.has(path))).toEqual([])
  })

  test('all mistakes are told at once', () => {
    expect(refusal({ retry: { attempts: -1, hostPolicy: 'any' }, hostHeader: 'x' }).split('; ')).toHaveLength(
      3,
    )
  })

  test('no options at all, and options that are missing', () => {
    const construct = consistentHashProxy as (options?: unknown) => unknown
    expect(() => construct()).toThrow(
      new OptionsError('Expected `options` to be an object with options, got undefined'),
    )
    expect(() => construct({})).toThrow(/`key` to be a key source.*got undefined; Expected `topology`/)
  })
})

test('a mistake is told once, whatever it offends against', () => {
  expect(refusal({ timeouts: { connectMs: -1 } })).toBe(
    'Expected `timeouts.connectMs` to be at least 1, got -1',
  )
})

describe('an unknown option is answered with the nearest known one', () => {
  test.each([
    ['circutBreaker', 'circuitBreaker'],
    ['ring.virtualnodes', 'virtualNodes'],
    ['boundedLoad.facto', 'factor'],
    ['healthCheck.pth', 'path'],
    ['metrics.prefx', 'prefix'],
    ['retry.backoff.maxMS', 'maxMs'],
    ['upstreamTls.serverName', 'servername'],
  ])('%s', (option, nearest) => {
    expect(refusal(nested(option, 1))).toBe(
      `Expected an option that exists, got \`${option}\`: did you mean \`${nearest}\`?`,
    )
  })

  test('`__proto__` is one, so that JSON options cannot smuggle any', () => {
    expect(refusal(JSON.parse('{"__proto__":{"retry":{"attempts":99}}}'))).toMatch(/got `__proto__`/)
  })
})

describe('mistakes that the schema cannot see throw at construction too', () => {
  test.each([
    ['heder:x', /`key` to be a source with a kind .* \(did you mean header\?\), got 'heder:x'/],
    ['header:', /`key` to be a source with the form header:<name>.*, got 'header:'/],
    ['', /`key` to be a source with .*, got ''/],
    ['path:0', /`key` to be a source with .*, got 'path:0'/],
    [{ extract: () => 'x' }, /`key` to be a key source, .*, got an object/],
  ])('key %j', (key, message) => {
    expect(refusal({ key })).toMatch(message)
  })

  test('metadata that cannot be shown in status', () => {
    const upstream = { url: 'http://127.0.0.1:1', metadata: { big: 1n } }
    expect(() => staticTopology([upstream])).toThrow(
      new OptionsError('topology[0]: metadata: expected an object that JSON can hold, got { big: 1n }'),
    )
  })

  test('trustedProxies', () => {
    expect(refusal({ trustedProxies: ['loopback', '10/8'] })).toMatch(
      /`trustedProxies` to list .*, got '10\/8'/,
    )
  })

  test('a registry that has the metrics of another proxy: nothing is added to it, and no source is opened', async () => {
    const registry = new Registry()
    const first = consistentHashProxy({ ...valid, metrics: { registry } })
    const before = registry.getMetricsAsArray().length
    const source = new ScriptedTopology()
    expect(refusal({ topology: source, metrics: { registry } })).toMatch(
      /`metrics.registry` to have no metric `consistent_hash_proxy_.*` yet, got one/,
    )
    registry.removeSingleMetric('consistent_hash_proxy_requests_total')
    expect(refusal({ topology: source, metrics: { registry } })).toMatch(/`metrics.registry`/)
    expect(registry.getMetricsAsArray()).toHaveLength(before - 1)
    await first.close()
    expect(source.opens).toBe(0)
  })
})

describe('TLS material', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tls-options-'))
  const read = (name: string) => readFileSync(join(folder, name), 'utf8')
  beforeAll(() => {
    const newKey = '-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
    for (const name of ['a', 'b']) {
      const command = `req -x509 ${newKey} -keyout ${name}.key -out ${name}.pem -days 2 -subj /CN=${name}`
      execFileSync('openssl', command.split(' '), { cwd: folder, stdio: 'pipe' })
    }
  })
  afterAll(() => rmSync(folder, { recursive: true }))

  test('what belongs together is taken, as text or bytes', () => {
    const [cert, key] = [read('a.pem'), Buffer.from(read('a.key'))]
    expect(refusal({ upstreamTls: { ca: [cert, Buffer.from(read('b.pem'))], cert, key } })).toBe('accepted')
  })

  test('what cannot be read or does not belong together is refused, and a private key is never shown', () => {
    const [cert, key, otherKey] = [read('a.pem'), read('a.key'), read('b.key')]
    expect(refusal({ upstreamTls: { ca: [cert, 'no PEM'] } })).toMatch(
      /`upstreamTls.ca` to be certificates in PEM/,
    )
    expect(refusal({ upstreamTls: { ca: key } })).toMatch(/`upstreamTls.ca` to be certificates in PEM/)
    expect(refusal({ upstreamTls: { cert } })).toMatch(/`upstreamTls.key` to be the private key of/)
    expect(refusal({ upstreamTls: { key } })).toMatch(/`upstreamTls.cert` to be the certificate of/)
    const mismatch = refusal({ upstreamTls: { cert, key: otherKey } })
    expect(mismatch).toMatch(
      /`upstreamTls.key` to be the private key of `upstreamTls.cert`, got another string/,
    )
    expect(mismatch).not.toContain('PRIVATE')
  })
})
