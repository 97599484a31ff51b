import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http'
import type { Registry } from 'prom-client'
import type { Clock } from './clock.ts'
import type { KeyFunction } from './key/function-source.ts'
import type { KeyRequest, KeySource } from './key/key-source.ts'
import type { Logger } from './logger.ts'
import type { TopologySource, Upstream } from './topology/topology.ts'

/** Options of `consistentHashProxy`. Everything but `key` and `topology` has a default. */
export interface ConsistentHashProxyOptions {
  /** What identifies the client: `key.header('x-user-id')`, its string form `'header:x-user-id'`, or a function. */
  key: KeySource | string | KeyFunction
  /** Where the upstreams come from: `staticTopology(…)`, `fileTopology(…)` or `etcdTopology(…)`. */
  topology: TopologySource
  /** Placement. Gateways that share upstreams must agree on it: compare `status().ring.digest`. */
  ring?: RingOptions | undefined
  /** The bound on each upstream's requests in flight; `false`: the owner takes everything. */
  boundedLoad?: BoundedLoadOptions | false | undefined
  /** When an upstream is taken out of choice for failing. */
  circuitBreaker?: CircuitBreakerOptions | undefined
  /** What is tried again, where, and how often. */
  retry?: RetryOptions | undefined
  /** Active health checks. @default false */
  healthCheck?: HealthCheckOptions | false | undefined
  /** Ramp of the capacity of a new or recovered upstream; `false`: none. */
  slowStart?: SlowStartOptions | false | undefined
  timeouts?: TimeoutOptions | undefined
  limits?: LimitOptions | undefined
  /** Which HTTP client talks to the upstreams. @default 'http-proxy' */
  transport?: 'http-proxy' | 'undici' | undefined
  /** TLS towards `https:` upstreams, which are verified by default. */
  upstreamTls?: UpstreamTlsOptions | undefined
  /** `Host` header the upstream sees: the client's, or the upstream's own. @default 'preserve' */
  hostHeader?: 'preserve' | 'upstream' | undefined
  /** Changes the request target (path and query) before the upstream's base path is put in front. */
  rewritePath?: ((path: string, request: KeyRequest) => string) | undefined
  /** Called before each attempt; may change `headers`, which go to the upstream. */
  onRequest?: ((attempt: RequestHookContext) => void) | undefined
  /** Called with the answer before it is passed on; may change `headers`, which go to the client. */
  onResponse?: ((answer: ResponseHookContext) => void) | undefined
  /** Prometheus metrics; `false`: none. */
  metrics?: MetricsOptions | false | undefined
  /** A `pino` logger or anything of its shape. @default logs nothing */
  logger?: Logger | undefined
  /** A request without a key: any upstream by chance, 400, or a function that makes up a key. @default 'random' */
  onMissingKey?: 'random' | 'reject' | KeyFunction | undefined
  /** Addresses or CIDRs (also `loopback`, `linklocal`, `uniquelocal`, `unix`) whose `X-Forwarded-*` are believed. @default [] */
  trustedProxies?: readonly string[] | undefined
  /** Which headers tell the upstream about the client. @default ['x-forwarded', 'via'] */
  forwardedHeaders?: readonly ForwardedHeader[] | undefined
  /** Name the upstream that answered in the response header `x-upstream-id`. @default false */
  exposeUpstreamId?: boolean | undefined
  /** Path prefix that `upgrade` strips, since an upgrade passes no Express router. @default '' */
  mountPath?: string | undefined
  /** Requests that stay open (server-sent events): counted apart, like WebSockets, never in the load. */
  longLived?: ((request: KeyRequest) => boolean) | undefined
  /** Time and chance, for tests. @default the system's */
  clock?: Clock | undefined
}

export type ForwardedHeader = 'x-forwarded' | 'forwarded' | 'via'

export interface RingOptions {
  /** Points on the ring of an upstream of weight 1. Fewer than 100 draw a warning. @default 160 */
  virtualNodes?: number | undefined
  /** @default 'xxh64' */
  hash?: 'xxh64' | undefined
  /** 64-bit seed; a secret one keeps clients from aiming at an upstream. @default 0 */
  seed?: number | bigint | undefined
  /** Place `cart:{user:123}:7` by `user:123`. @default false */
  hashTags?: boolean | undefined
}

export interface BoundedLoadOptions {
  /** Balance factor `c`: no upstream takes more than `c` times its fair share of requests in flight. @default 1.25 */
  factor?: number | undefined
  /** Requests in flight that an average upstream may always have, so that low traffic keeps its affinity. @default 8 */
  floor?: number | undefined
  /** A full owner's request: to the next owner, or 503 with `Retry-After`. @default 'next' */
  overflow?: 'next' | 'reject' | undefined
}

export interface CircuitBreakerOptions {
  /** Failures in a row that open the breaker. @default 5 */
  consecutiveFailures?: number | undefined
  /** Failure rate within the window that opens it, in percent. @default 50 */
  failureRatePercent?: number | undefined
  /** Requests within the window below which the rate says nothing. @default 20 */
  minimumRequests?: number | undefined
  /** Sliding window of the rate, in milliseconds. @default 10000 */
  windowMs?: number | undefined
  /** First open period in milliseconds; doubles with each further trip. @default 5000 */
  openMs?: number | undefined
  /** Longest open period in milliseconds. @default 300000 */
  maxOpenMs?: number | undefined
  /** Random part of an open period, as a share of it. @default 0.1 */
  jitter?: number | undefined
  /** Probes let through at once when half-open. @default 1 */
  halfOpenProbes?: number | undefined
  /** Different keys that failing statuses must come from before they count as the upstream's fault. @default 3 */
  distinctKeys?: number | undefined
  /** Statuses that count as failures. @default [502, 503, 504] */
  statuses?: readonly number[] | undefined
  /** Upstreams, by weight, that bad answers, timeouts and health checks may eject, in percent. @default 50 */
  maxEjectionPercent?: number | undefined
  /** A client that leaves after waiting this long without a first byte counts as a timeout. Milliseconds. @default 10000 */
  abandonedAfterMs?: number | undefined
}

export interface RetryOptions {
  /** Attempts after the first. @default 2 */
  attempts?: number | undefined
  /** Where a retry goes: the next owner, or the same upstream again. @default 'next' */
  hostPolicy?: 'next' | 'same' | undefined
  /** Statuses of idempotent requests that are tried again. @default [] */
  statuses?: readonly number[] | undefined
  /** Longest wait for the head of one attempt's answer, in milliseconds. @default timeouts.firstByteMs */
  perTryTimeoutMs?: number | undefined
  /** First and longest back-off in milliseconds; full jitter. @default { baseMs: 50, maxMs: 1000 } */
  backoff?: { baseMs?: number | undefined; maxMs?: number | undefined } | undefined
  /** Retries allowed: percent of recent requests, and at least so many a second. @default { percent: 20, minPerSecond: 3 } */
  budget?: { percent?: number | undefined; minPerSecond?: number | undefined } | undefined
}

export interface HealthCheckOptions {
  /** Path asked for, below the upstream's base path. @default '/healthz' */
  path?: string | undefined
  /** Milliseconds between two checks. @default 5000 */
  intervalMs?: number | undefined
  /** Random part of the interval, as a share of it. @default 0.2 */
  jitter?: number | undefined
  /** @default 2000 */
  timeoutMs?: number | undefined
  /** Good checks in a row that bring an upstream back. @default 2 */
  healthyThreshold?: number | undefined
  /** Bad checks in a row that take it out. @default 3 */
  unhealthyThreshold?: number | undefined
  /** @default every status from 200 to 399 */
  expectedStatuses?: readonly number[] | undefined
}

export interface SlowStartOptions {
  /** Milliseconds from a tenth of the capacity to all of it, linear. @default 30000 */
  durationMs?: number | undefined
}

export interface TimeoutOptions {
  /** TCP and TLS handshake. @default 2000 */
  connectMs?: number | undefined
  /** From the request's last byte to the answer's head. @default 30000 */
  firstByteMs?: number | undefined
  /** No byte moved in either direction. @default 60000 */
  idleMs?: number | undefined
  /** All attempts together, until the answer's head. @default 60000 */
  totalMs?: number | undefined
  /** From the upgrade request to its answer. @default 10000 */
  webSocketHandshakeMs?: number | undefined
  /** How long `close()` waits for requests in flight. @default 10000 */
  drainMs?: number | undefined
}

export interface LimitOptions {
  /** @default 16384 */
  requestHeaderBytes?: number | undefined
  /** Longest routing key. @default 4096 */
  keyBytes?: number | undefined
  /** Largest request body kept for a retry. @default 65536 */
  replayBytes?: number | undefined
  /** Pooled sockets to one upstream; further requests wait. WebSockets and long-lived requests have one of their own each. @default 256 */
  connectionsPerUpstream?: number | undefined
  /** Requests in flight in this process, above which 503 is answered. @default Infinity */
  inFlight?: number | undefined
  /** WebSockets and long-lived requests of one upstream. @default Infinity */
  longLivedPerUpstream?: number | undefined
  /** Points of the whole ring; upstreams beyond are refused. @default 4000000 */
  ringPoints?: number | undefined
}

export interface UpstreamTlsOptions {
  ca?: string | Buffer | (string | Buffer)[] | undefined
  cert?: string | Buffer | undefined
  key?: string | Buffer | undefined
  /** Name to verify when it is not the URL's host. */
  servername?: string | undefined
}

export interface MetricsOptions {
  /** @default a registry of the proxy's own, as `proxy.metrics` */
  registry?: Registry | undefined
  /** @default 'consistent_hash_proxy_' */
  prefix?: string | undefined
}

/** What `onRequest` sees of one attempt. */
export interface RequestHookContext {
  readonly request: IncomingMessage
  readonly upstream: Upstream
  /** 1 for the first attempt. */
  readonly attempt: number
  readonly headers: OutgoingHttpHeaders
}

/** What `onResponse` sees of an answer. */
export interface ResponseHookContext {
  readonly request: IncomingMessage
  readonly upstream: Upstream
  readonly attempt: number
  readonly status: number
  readonly headers: OutgoingHttpHeaders
}
