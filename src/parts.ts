import { Registry } from 'prom-client'
import { Balancer } from './balancer/balancer.ts'
import { Rollout } from './balancer/rollout.ts'
import type { Config } from './config.ts'
import { HealthChecker } from './health/health-checker.ts'
import { compileTrust } from './http/client-address.ts'
import { ProxyEventEmitter } from './observe/events.ts'
import { gatewayReport } from './observe/gateway-report.ts'
import { logEvents } from './observe/log-events.ts'
import { Metrics } from './observe/metrics.ts'
import { observeSource } from './observe/source-observer.ts'
import { describeStatus, type ProxyStatus } from './observe/status.ts'
import { Admission, type Gateway } from './proxy/gateway.ts'
import { Readiness } from './proxy/readiness.ts'
import { RoutingKey } from './proxy/routing-key.ts'
import type { StatusRules } from './proxy/verdict.ts'
import { RetryBudget } from './retry/retry-budget.ts'
import { type RefreshableFeed, TopologyRefresher } from './retry/topology-refresher.ts'
import { expectedHeaviestOverMean } from './ring/expected-balance.ts'
import { xxh64Ready } from './ring/xxh64.ts'
import type { Steps } from './steps.ts'
import { DeferredFeed } from './topology/deferred-feed.ts'
import type { Topology, TopologyFeed } from './topology/topology.ts'
import { HttpProxyTransport } from './transport/http-proxy-transport.ts'
import { Deadlines } from './transport/phase-timer.ts'
import type { AttemptTimeouts, Transport } from './transport/transport.ts'
import { UndiciTransport } from './transport/undici-transport.ts'

/** Everything that one proxy consists of. Two proxies in one process share nothing. */
export interface Parts {
  readonly gateway: Gateway
  readonly registry: Registry | undefined
  status(): ProxyStatus
  close(): Promise<void>
}

/** Puts a proxy together and starts it. */
export function createParts(config: Config): Parts {
  const { clock, logger, limits } = config
  const events = new ProxyEventEmitter(logger)
  logEvents(events, logger, clock)
  const trust = compileTrust(config.trustedProxies)
  const routingKey = new RoutingKey(config, trust, events)
  const balancer = new Balancer(config, events)
  const readiness = new Readiness(clock)
  const deadlines = new Deadlines(clock)
  const transport = createTransport(config, deadlines)
  const healthChecker = createHealthChecker(config, balancer)
  const rollout = new Rollout(
    (topology: Topology) => follow(topology, { balancer, transport, readiness, healthChecker }),
    (error) => logger.error({ err: error }, 'a topology cannot be used; the last good one stays'),
    clock,
  )
  const status = () => describeStatus(balancer, feed, config.ring.virtualNodes)
  const registry = config.metrics === false ? undefined : (config.metrics.registry ?? new Registry())
  const metrics = registry && config.metrics && new Metrics(registry, config.metrics.prefix, events, status)
  const admission = new Admission(limits.inFlight)
  // Behind all that may throw: a proxy that could not be made must not leave a watch behind.
  const take = (topology: Topology) => rollout.take(topology)
  const observer = observeSource(events, take, () => readiness.sourceFailed())
  const feed = new DeferredFeed(xxh64Ready(), config.topology, observer, { clock, logger })
  feed.report(gatewayReport(balancer, events, clock))
  warnOfFewVirtualNodes(config)

  return {
    gateway: {
      ...{ config, balancer, transport, deadlines, routingKey, trust, events, readiness, admission },
      attemptTimeouts: attemptTimeouts(config),
      budget: new RetryBudget(config.retry.budget, clock),
      refresher: new TopologyRefresher(refreshable(feed, rollout), balancer, events, clock),
      statusRules: statusRules(config),
    },
    registry,
    status,
    close: once(async () => {
      readiness.close()
      await admission.close(clock, config.timeouts.drainMs)
      await closeAll([healthChecker, feed, rollout, transport, deadlines, metrics || undefined])
      events.removeAllListeners()
    }),
  }
}

/** Takes a topology over, step by step. */
function* follow(
  topology: Topology,
  { balancer, transport, readiness, healthChecker }: Followers,
): Steps<void> {
  yield* balancer.update(topology)
  readiness.arrived()
  yield
  const upstreams = [...balancer.registry.present]
  transport.retain(upstreams.map(({ target }) => target))
  yield
  healthChecker?.update(upstreams.map(({ spec }) => spec))
}

interface Followers extends Pick<Gateway, 'balancer' | 'transport' | 'readiness'> {
  readonly healthChecker: HealthChecker | undefined
}

/** A topology that was read again counts once it is in use. */
function refreshable(feed: TopologyFeed, rollout: Rollout<Topology>): RefreshableFeed {
  return {
    get status() {
      return feed.status
    },
    async refresh() {
      await feed.refresh()
      await rollout.settled()
    },
  }
}

async function closeAll(parts: readonly ({ close(): unknown } | undefined)[]): Promise<void> {
  for (const part of parts) await part?.close()
}

const transports = { 'http-proxy': HttpProxyTransport, undici: UndiciTransport }

function createTransport(config: Config, deadlines: Deadlines): Transport {
  const { connectionsPerUpstream } = config.limits
  return new transports[config.transport](
    { connectionsPerUpstream, idleMs: config.timeouts.idleMs, tls: config.upstreamTls },
    deadlines,
  )
}

function createHealthChecker(
  { healthCheck, upstreamTls, clock }: Config,
  balancer: Balancer,
): HealthChecker | undefined {
  if (healthCheck === false) return undefined
  return new HealthChecker({ ...healthCheck, tls: upstreamTls }, clock, (id, healthy) =>
    balancer.setHealthy(id, healthy),
  )
}

function attemptTimeouts({ timeouts, retry }: Config): AttemptTimeouts {
  const { connectMs, firstByteMs, idleMs } = timeouts
  return { connectMs, firstByteMs: Math.min(firstByteMs, retry.perTryTimeoutMs ?? firstByteMs), idleMs }
}

function statusRules({ circuitBreaker, retry }: Config): StatusRules {
  return { failureStatuses: new Set(circuitBreaker.statuses), retryStatuses: new Set(retry.statuses) }
}

/** Below this many the shares differ so much that the load bound does the ring's work. */
const fewVirtualNodes = 100

function warnOfFewVirtualNodes({ ring, logger }: Config): void {
  if (ring.virtualNodes >= fewVirtualNodes) return
  const expected = expectedHeaviestOverMean(10, ring.virtualNodes).toFixed(2)
  logger.warn(
    { virtualNodes: ring.virtualNodes },
    `with ${ring.virtualNodes} virtual nodes the heaviest of 10 upstreams is expected to own ${expected} times the mean`,
  )
}

function once<T>(run: () => Promise<T>): () => Promise<T> {
  let result: Promise<T> | undefined
  return () => {
    result ??= run()
    return result
  }
}
