import { closest } from 'fastest-levenshtein'
import { z } from 'zod'
import { systemClock } from './clock.ts'
import { OptionsError } from './errors.ts'
import type { KeyFunction } from './key/function-source.ts'
import type { KeySource } from './key/key-source.ts'
import { type Logger, silentLogger } from './logger.ts'
import type { ConsistentHashProxyOptions } from './options.ts'
import type { TopologySource } from './topology/topology.ts'

const milliseconds = z.number().int().min(0).max(2_147_483_647) // the longest that Node's timers can wait
const positive = z.number().int().min(1)
const limit = z.union([z.number().int().min(0), z.literal(Number.POSITIVE_INFINITY)])
const percent = z.number().min(0).max(100)
const share = z.number().min(0).max(1)
const statuses = z.array(z.number().int().min(100).max(599)).readonly()
const pem = z.union([z.string(), z.instanceof(Buffer)])

/** Zod cannot see a function's signature, so TypeScript has to be believed. */
const callable = <F>() => z.custom<F>((value) => typeof value === 'function', 'expected a function')
const withMethods = <T>(expected: string, ...methods: string[]) =>
  z.custom<T>(
    (value) =>
      typeof value === 'object' &&
      value !== null &&
      methods.every((name) => typeof Reflect.get(value, name) === 'function'),
    `expected ${expected}`,
  )

/** A group of options that may be left out: then every field has its default. */
const group = <Shape extends z.ZodRawShape>(shape: Shape) => z.strictObject(shape).prefault({} as never)

/** The schema of all options, exported so that a test can hold the README's table against it. */
export const optionsSchema = z.strictObject({
  key: z.union([
    z.string(),
    callable<KeyFunction>(),
    withMethods<KeySource>('a key source, its string form or a function', 'extract'),
  ]),
  topology: withMethods<TopologySource>('staticTopology(…), fileTopology(…) or etcdTopology(…)', 'open'),
  ring: group({
    virtualNodes: z.number().int().min(1).max(10_000).default(160),
    hash: z.enum(['xxh64']).default('xxh64'),
    seed: z.union([z.number().int().min(0), z.bigint().min(0n).max(0xffff_ffff_ffff_ffffn)]).default(0),
    hashTags: z.boolean().default(false),
  }),
  boundedLoad: z.union([
    z.literal(false),
    group({
      factor: z.number().min(1).max(1_000).default(1.25),
      floor: z.number().min(0).max(1_000_000).default(8),
      overflow: z.enum(['next', 'reject']).default('next'),
    }),
  ]),
  circuitBreaker: group({
    consecutiveFailures: positive.default(5),
    failureRatePercent: percent.default(50),
    minimumRequests: positive.default(20),
    windowMs: positive.default(10_000),
    openMs: positive.default(5_000),
    maxOpenMs: positive.default(300_000),
    jitter: share.default(0.1),
    halfOpenProbes: positive.default(1),
    distinctKeys: positive.default(3),
    statuses: statuses.default([502, 503, 504]),
    maxEjectionPercent: percent.default(50),
    abandonedAfterMs: milliseconds.default(10_000),
  }),
  retry: group({
    attempts: z.number().int().min(0).max(10).default(2),
    hostPolicy: z.enum(['next', 'same']).default('next'),
    statuses: statuses.default([]),
    perTryTimeoutMs: milliseconds.optional(),
    backoff: group({ baseMs: milliseconds.default(50), maxMs: milliseconds.default(1_000) }),
    budget: group({ percent: percent.default(20), minPerSecond: z.number().min(0).default(3) }),
  }),
  healthCheck: z
    .union([
      z.literal(false),
      group({
        path: z.string().startsWith('/').default('/healthz'),
        intervalMs: positive.default(5_000),
        jitter: share.default(0.2),
        timeoutMs: positive.default(2_000),
        healthyThreshold: positive.default(2),
        unhealthyThreshold: positive.default(3),
        expectedStatuses: statuses.optional(),
      }),
    ])
    .default(false),
  slowStart: z.union([z.literal(false), group({ durationMs: milliseconds.default(30_000) })]),
  timeouts: group({
    connectMs: milliseconds.default(2_000),
    firstByteMs: milliseconds.default(30_000),
    idleMs: milliseconds.default(60_000),
    totalMs: milliseconds.default(60_000),
    webSocketHandshakeMs: milliseconds.default(10_000),
    drainMs: milliseconds.default(10_000),
  }),
  limits: group({
    requestHeaderBytes: positive.default(16_384),
    keyBytes: positive.default(4_096),
    replayBytes: z.number().int().min(0).default(65_536),
    connectionsPerUpstream: positive.default(256),
    inFlight: limit.default(Number.POSITIVE_INFINITY),
    longLivedPerUpstream: limit.default(Number.POSITIVE_INFINITY),
    ringPoints: positive.max(8_000_000).default(4_000_000),
  }),
  transport: z.enum(['http-proxy']).default('http-proxy'),
  upstreamTls: group({
    ca: z.union([pem, z.array(pem)]).optional(),
    cert: pem.optional(),
    key: pem.optional(),
    servername: z.string().optional(),
  }),
  hostHeader: z.enum(['preserve', 'upstream']).default('preserve'),
  rewritePath: callable<NonNullable<ConsistentHashProxyOptions['rewritePath']>>().optional(),
  onRequest: callable<NonNullable<ConsistentHashProxyOptions['onRequest']>>().optional(),
  onResponse: callable<NonNullable<ConsistentHashProxyOptions['onResponse']>>().optional(),
  metrics: z.union([
    z.literal(false),
    group({
      registry: withMethods<import('prom-client').Registry>(
        'a prom-client Registry',
        'registerMetric',
      ).optional(),
      prefix: z
        .string()
        .regex(/^[a-zA-Z_:][a-zA-Z0-9_:]*$/, 'expected letters, digits, _ or :')
        .default('consistent_hash_proxy_'),
    }),
  ]),
  logger: withMethods<Logger>(
    'a logger with debug, info, warn and error',
    'debug',
    'info',
    'warn',
    'error',
  ).default(silentLogger),
  onMissingKey: z.union([z.enum(['random', 'reject']), callable<KeyFunction>()]).default('random'),
  trustedProxies: z.array(z.string()).readonly().default([]),
  forwardedHeaders: z
    .array(z.enum(['x-forwarded', 'forwarded', 'via']))
    .readonly()
    .default(['x-forwarded', 'via']),
  exposeUpstreamId: z.boolean().default(false),
  mountPath: z
    .string()
    .regex(/^(\/.*[^/])?$/, 'expected a path that starts with / and does not end with one')
    .default(''),
  longLived: callable<NonNullable<ConsistentHashProxyOptions['longLived']>>().optional(),
  clock: withMethods<import('./clock.ts').Clock>('a clock', 'now', 'setTimeout', 'random').default(
    systemClock,
  ),
})

/** The options with every default filled in. */
export type Config = z.output<typeof optionsSchema>

/**
 * Parses the options once.
 * @throws OptionsError naming the option, what was expected and what was given
 */
export function parseOptions(options: ConsistentHashProxyOptions): Config {
  const parsed = optionsSchema.safeParse(options, { reportInput: true })
  if (parsed.success) return Object.freeze(parsed.data)
  throw new OptionsError(parsed.error.issues.map((issue) => describe(issue, options)).join('; '))
}

function describe(issue: z.core.$ZodIssue, options: unknown): string {
  const at = issue.path.join('.') || 'options'
  if (issue.code === 'unrecognized_keys') {
    const known = knownOptions(issue.path)
    return issue.keys
      .map((name) => {
        const nearest = known.length > 0 ? `; did you mean \`${closest(name, known)}\`?` : ''
        return `Unknown option \`${[...issue.path, name].join('.')}\`${nearest}`
      })
      .join('; ')
  }
  if (issue.code === 'invalid_union') {
    // The branch that got furthest is the one that was meant: `boundedLoad: { factor: 0 }` is no `false`.
    const meant = issue.errors.find((branch) => branch.some((inner) => inner.path.length > 0))
    if (meant?.[0]) {
      return describe({ ...meant[0], path: [...issue.path, ...meant[0].path] } as z.core.$ZodIssue, options)
    }
    const expected = issue.errors.map((branch) => expectation(branch[0]?.message ?? '')).join(' or ')
    return `Expected \`${at}\` to be ${expected}, got ${show(valueAt(options, issue.path))}`
  }
  return `Expected \`${at}\` to be ${expectation(issue.message)}, got ${show(valueAt(options, issue.path))}`
}

/** Zod's "Invalid input: expected number, received string" less what is said otherwise. */
function expectation(message: string): string {
  return message
    .replace(/^Invalid (input|option): /, '')
    .replace(/^(Too (small|big)): /, '')
    .replace(/, received .*$/, '')
    .replace(/expected (number|string|bigint|array) to (be|have) /, '')
    .replace(/^expected /, '')
}

function knownOptions(path: readonly PropertyKey[]): string[] {
  let schema: unknown = optionsSchema
  for (const name of ['', ...path]) {
    if (schema instanceof z.ZodObject && name !== '') schema = schema.shape[String(name)]
    schema = unwrap(schema)
  }
  return schema instanceof z.ZodObject ? Object.keys(schema.shape) : []
}

function unwrap(schema: unknown): unknown {
  if (schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault) return unwrap(schema.unwrap())
  if (schema instanceof z.ZodUnion)
    return schema.options.map(unwrap).find((option) => option instanceof z.ZodObject)
  return schema
}

function valueAt(options: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (value, name) => (typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined),
    options,
  )
}

function show(value: unknown): string {
  if (typeof value === 'string') return `'${value.length > 80 ? `${value.slice(0, 80)}…` : value}'`
  if (typeof value === 'function') return 'a function'
  if (typeof value === 'object' && value !== null) return Array.isArray(value) ? 'an array' : 'an object'
  return String(value)
}
