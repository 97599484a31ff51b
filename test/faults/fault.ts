import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type TestContext, test } from 'vitest'
import {
  type ConsistentHashProxy,
  type ConsistentHashProxyOptions,
  consistentHashProxy,
  type EtcdTopologyOptions,
  etcdTopology,
  staticTopology,
} from '../../src/index.ts'
import type { Account } from '../support/account.ts'
import { type EtcdProcess, startEtcd } from '../support/etcd.ts'
import { GatewayProcess, type GatewaySettings } from '../support/gateway-process.ts'
import { Relay } from '../support/relay.ts'
import { Traffic, type TrafficOptions } from '../support/traffic.ts'
import { testedTransport } from '../support/transport.ts'
import { UpstreamProcess } from '../support/upstream-process.ts'

/** The long form takes faults as long as they are named, one at a time; the short form scales them down. */
export const long = process.env.FAULTS === 'long'

/** Picks by form. */
export const scaled = <T>(short: T, whole: T): T => (long ? whole : short)

/** What one fault did, as `npm run test:faults -- --json FILE` writes it. */
export interface FaultResult {
  readonly name: string
  readonly transport: typeof testedTransport
  sent: number
  /** Idempotent requests without a good answer. */
  failed: number
  lost: number
  /** Requests that may not be executed twice, and were. */
  executedTwice: number
  /** From the end of the fault, or the change, until the gateway was as it should be; null where nothing converges. */
  convergedMs: number | null
  /** Rate of the traffic. */
  perSecond: number
  holds: boolean
}

declare module 'vitest' {
  interface TaskMeta {
    fault?: FaultResult
  }
}

export interface StageGateway {
  readonly proxy: ConsistentHashProxy
  readonly server: Server
  readonly port: number
}

export const prefix = '/consistent-hash-proxy/faults/'

/** What a fault is played on: real processes and sockets, all of them gone when it is over. */
export class Stage {
  readonly result: FaultResult
  readonly #ends: (() => unknown)[] = []

  constructor(name: string) {
    this.result = {
      ...{ name, transport: testedTransport, sent: 0, failed: 0, lost: 0, executedTwice: 0 },
      ...{ convergedMs: null, perSecond: 0, holds: false },
    }
  }

  /** Does `end` when the fault is over, the last one first. */
  defer(end: () => unknown): void {
    this.#ends.push(end)
  }

  async close(): Promise<void> {
    for (const end of this.#ends.reverse()) await end()
  }

  async upstreams(...ids: readonly string[]): Promise<UpstreamProcess[]> {
    const started = await Promise.all(ids.map((id) => UpstreamProcess.start(id)))
    for (const upstream of started) this.defer(() => upstream.stop())
    return started
  }

  async etcd(flags: readonly string[] = []): Promise<EtcdProcess> {
    const etcd = await startEtcd({ flags })
    this.defer(() => etcd.stop())
    return etcd
  }

  async relay(port: number): Promise<Relay> {
    const relay = await Relay.start(port)
    this.defer(() => relay.close())
    return relay
  }

  /** A gateway in this process; does not wait for its topology. */
  async gateway(
    options: Omit<ConsistentHashProxyOptions, 'key'> & Partial<Pick<ConsistentHashProxyOptions, 'key'>>,
  ): Promise<StageGateway> {
    const proxy = consistentHashProxy({ key: 'header:x-user-id', transport: testedTransport, ...options })
    // Node's server looks only every 30 s for what takes too long to arrive.
    const server = createServer({ connectionsCheckingInterval: 500 }, proxy)
    await new Promise<void>((resolve) => {
      server.listen(0, '127.0.0.1', resolve)
    })
    this.defer(async () => {
      server.closeAllConnections()
      server.close()
      await proxy.close()
    })
    return { proxy, server, port: (server.address() as AddressInfo).port }
  }

  /** A gateway on upstreams that are there from the start. */
  async gatewayTo(
    upstreams: readonly { id: string; url: string }[],
    options: Partial<ConsistentHashProxyOptions> = {},
  ): Promise<StageGateway> {
    const topology = staticTopology(upstreams.map(({ id, url }) => ({ id, url })))
    const gateway = await this.gateway({ ...options, topology })
    await gateway.proxy.ready()
    return gateway
  }

  async gatewayProcess(settings: GatewaySettings): Promise<GatewayProcess> {
    const gateway = await GatewayProcess.start(settings)
    this.defer(() => gateway.kill())
    return gateway
  }

  traffic(options: Omit<TrafficOptions, 'perSecond'> & { perSecond?: number }): Traffic {
    const traffic = new Traffic({ perSecond: scaled(250, 1_000), ...options })
    this.defer(() => traffic.stop([], 0))
    return traffic
  }

  /** Takes an account into the result. */
  take(account: Account): Account {
    const { sent, failed, lost, executedTwice, perSecond } = account
    const { result } = this
    result.sent += sent
    result.failed += failed.length
    result.lost += lost.length
    result.executedTwice += executedTwice.length
    result.perSecond = perSecond
    return account
  }

  /** Takes the time since `start` as what it took to converge: the longest of several. */
  converged(start: number): number {
    const took = Math.round(performance.now() - start)
    this.result.convergedMs = Math.max(this.result.convergedMs ?? 0, took)
    return took
  }
}

export interface FaultOptions {
  readonly timeout?: number
  /** Not beside others of its file: for those that measure time, and in the long form for all. */
  readonly alone?: boolean
}

/** One fault as a test. What it finds stands in its result, whether it holds or not. */
export function fault(
  name: string,
  play: (stage: Stage) => Promise<void>,
  { timeout = scaled(40_000, 240_000), alone = long }: FaultOptions = {},
): void {
  const run = async ({ task }: TestContext) => {
    const stage = new Stage(name)
    task.meta.fault = stage.result
    try {
      await play(stage)
      stage.result.holds = true
    } finally {
      await stage.close()
      console.log(JSON.stringify(stage.result))
    }
  }
  test(name, { timeout, concurrent: !alone }, run)
}

/** An etcd source with what lets a fault be noticed in the short form as soon as in the long one. */
export function etcdSource(hosts: string | readonly string[], options: Partial<EtcdTopologyOptions> = {}) {
  const times = long ? {} : { reconcileIntervalMs: 1_000, requestTimeoutMs: 1_000, connectTimeoutMs: 1_000 }
  return etcdTopology({ hosts, prefix, ...times, ...options })
}

export const sleep = (milliseconds: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, milliseconds))
