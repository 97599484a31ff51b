import { z } from 'zod'
import { systemClock } from './clock.ts'
import { OptionsError } from './errors.ts'
import type { KeyFunction } from './key/function-source.ts'
import { isKeyInput, type KeyInput } from './key/key.ts'
import { type Logger, silentLogger } from './logger.ts'
import { describeIssue } from './option-issues.ts'
import type { ConsistentHashProxyOptions } from './options.ts'
import type { TopologySource } from './topology/topology.ts'
import { findTlsMistake } from './upstream-tls.ts'

const timerRange = z.number().int().max(2_147_483_647) // the longest that Node's timers can wait
const milliseconds = timerRange.min(0)
const someMilliseconds = timerRange.min(1)
const positive = z.number().int().min(1)
const limit = z.union([z.number().int().min(0), z.literal(Number.POSITIVE_INFINITY)])
const percent = z.number().min(0).max(100)
const share = z.number().min(0).max(1)
const statuses = z.array(z.number().int().min(100).max(599)).readonly()
const pem = z.union([z.string(), z.instanceof(Buffer)])

/** Zod cannot see a function's signature, so TypeScript has to be believed. */
const callable = <F>(expected = 'a function') => z.custom<F>((value) => typeof value === 'function', expected)
const withMethods = <T>(expected: string, ...methods: string[]) =>
  z.custom<T>(
    (value) =>
      typeof value === 'object' &&
      value !== null &&
      methods.every((name) => typeof Reflect.get(value, name) === 'function'),
    expected,
  )

/** A group of options that may be left out: then every field has its default. */
const group = <Shape extends z.ZodRawShape>(shape: Shape) => optional(z.strictObject(shape))
const optional = <Group extends z.ZodObject>(schema: Group) => schema.prefault({} as never).readonly()

/** The schema of all options, exported so that a test can hold the README's table against it. */
export const optionsSchema = z.strictObject({
  key: z.custom<KeyInput>(
    isKeyInput,
    "a key source, its string form such as 'header:x-user-id', or a function",
  ),
  topology: withMethods<TopologySource>('a topology source such as staticTopology([…])', 'open'),
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
    windowMs: someMilliseconds.default(10_000),
    openMs: someMilliseconds.default(5_000),
    maxOpenMs: someMilliseconds.default(300_000),
    jitter: share.default(0.1),
    halfOpenProbes: positive.default(1),
    distinctKeys: positive.default(3),
    statuses: statuses.prefault([502, 503, 504]),
    maxEjectionPercent: percent.default(50),
    abandonedAfterMs: milliseconds.default(10_000),
  }),
  retry: group({
    attempts: z.number().int().min(0).max(10).default(2),
    hostPolicy: z.enum(['next', 'same']).default('next'),
    statuses: statuses.prefault([]),
    perTryTimeoutMs: someMilliseconds.optional(),
    backoff: group({ baseMs: milliseconds.default(50), maxMs: milliseconds.default(1_000) }),
    budget: group({ percent: percent.default(20), minPerSecond: z.number().min(0).default(3) }),
  }),
  healthCheck: z
    .union([
      z.literal(false),
      group({
        path: z.string().startsWith('/', 'a path that starts with /').default('/healthz'),
        intervalMs: someMilliseconds.default(5_000),
        jitter: share.default(0.2),
        timeoutMs: someMilliseconds.default(2_000),
        healthyThreshold: positive.default(2),
        unhealthyThreshold: positive.default(3),
        expectedStatuses: statuses.optional(),
      }),
    ])
    .default(false),
  slowStart: z.union([z.literal(false), group({ durationMs: milliseconds.default(30_000) })]),
  timeouts: group({
    connectMs: someMilliseconds.default(2_000),
    firstByteMs: someMilliseconds.default(30_000),
    idleMs: someMilliseconds.default(60_000),
    totalMs: someMilliseconds.default(60_000),
    webSocketHandshakeMs: someMilliseconds.default(10_000),
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
  transport: z.enum(['http-proxy', 'undici']).default('http-proxy'),
  upstreamTls: optional(
    z
      .strictObject({
        ca: z.union([pem, z.array(pem)]).optional(),
        cert: pem.optional(),
        key: pem.optional(),
        servername: z.string().optional(),
      })
      .superRefine((tls, context) => {
        const mistake = findTlsMistake(tls)
        if (mistake) context.addIssue({ code: 'custom', path: [mistake.option], message: mistake.expected })
      }),
  ),
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
        'getSingleMetric',
        'removeSingleMetric',
      ).optional(),
      prefix: z
        .string()
        .regex(/^[a-zA-Z_:][a-zA-Z0-9_:]*$/, 'letters, digits, _ and :, no digit first')
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
  trustedProxies: z.array(z.string()).readonly().prefault([]),
  forwardedHeaders: z
    .array(z.enum(['x-forwarded', 'forwarded', 'via']))
    .readonly()
    .prefault(['x-forwarded', 'via']),
  exposeUpstreamId: z.boolean().default(false),
  mountPath: z
    .string()
    .regex(/^(\/[^?#]*[^/?#])?$/, 'a path that starts with / and does not end with one')
    .default(''),
  longLived: callable<NonNullable<ConsistentHashProxyOptions['longLived']>>().optional(),
  clock: withMethods<import('./clock.ts').Clock>('a clock', 'now', 'setTimeout', 'random').default(
    systemClock,
  ),
})

/** The options with every default filled in; frozen, but for what is the caller's own (`registry`, `logger`, `clock`). */
export type Config = z.output<typeof optionsSchema>

/**
 * Parses the options once.
 * @throws OptionsError naming the option, what was expected and what was given
 */
export function parseOptions(options: ConsistentHashProxyOptions): Config {
  const parsed = optionsSchema.safeParse(options)
  if (parsed.success) return Object.freeze(parsed.data)
  throw new OptionsError(
    parsed.error.issues.map((issue) => describeIssue(issue, optionsSchema, options)).join('; '),
  )
}
