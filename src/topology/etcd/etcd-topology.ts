import { OptionsError } from '../../errors.ts'
import { requireKnown } from '../../known-options.ts'
import { decodeUpstream } from '../decode.ts'
import {
  type DisappearanceOptions,
  disappearanceOptionNames,
  parseDisappearance,
} from '../disappearance-guard.ts'
import { parseSnapshotFile, type SnapshotFileOptions } from '../disk-snapshot.ts'
import { show } from '../fields.ts'
import { milliseconds } from '../milliseconds.ts'
import { parseUpstream, type UpstreamInput } from '../parse-upstream.ts'
import type { TopologySource, Upstream } from '../topology.ts'
import { type AllowedHosts, hostFilter } from '../upstream-url.ts'
import { connectionOptionNames, type EtcdConnectionOptions, parseConnection } from './connection.ts'
import { EtcdFeed } from './etcd-feed.ts'
import { parseReport, type ReportOptions } from './gateway-reports.ts'

export interface EtcdTopologyOptions extends EtcdConnectionOptions, DisappearanceOptions {
  /**
   * Reads a registration that is written in a format of your own; `name` is what follows `upstreams/` in its
   * key and the id if none is given. Throw to refuse the value. What it returns is checked like any other.
   */
  readonly decode?: ((value: Buffer, name: string) => UpstreamInput) | undefined
  /** Which hosts upstreams may have. Default: all. Set it where others than you can write to etcd. */
  readonly allowedHosts?: AllowedHosts | undefined
  /** A file for the last topology, or its path: a gateway that starts while etcd is away serves by it. Default: none. */
  readonly snapshotFile?: string | SnapshotFileOptions | undefined
  /** What this gateway tells the others below `gateways/`, so that they notice when they place keys otherwise. Default on. */
  readonly report?: ReportOptions | false | undefined
  /** How often the prefix is read again, in milliseconds, to notice a watch that went silent. Default 30,000. */
  readonly reconcileIntervalMs?: number | undefined
}

const optionNames = [
  ...connectionOptionNames,
  ...disappearanceOptionNames,
  ...['decode', 'allowedHosts', 'snapshotFile', 'report', 'reconcileIntervalMs'],
]

/**
 * Upstreams that registered in etcd below `<prefix>upstreams/` (see `registerUpstream`), with what operators
 * set over them below `<prefix>overrides/`. Follows etcd through restarts, compactions and loss of its data;
 * while it is away the last topology stays. Throws OptionsError.
 *
 * With authentication the user needs to read the whole prefix. Loads etcd3 when it is first opened.
 */
export function etcdTopology(options: EtcdTopologyOptions): TopologySource {
  requireKnown(options, optionNames)
  const { decode, allowedHosts } = options
  if (decode !== undefined && typeof decode !== 'function') {
    throw new OptionsError(`decode: expected a function of value and name, got ${show(decode)}`)
  }
  const mayHaveHost = hostFilter(allowedHosts)
  const settings = {
    connection: parseConnection(options),
    reconcileIntervalMs: milliseconds('reconcileIntervalMs', options.reconcileIntervalMs, 30_000),
    snapshotFile: parseSnapshotFile(options.snapshotFile),
    report: parseReport(options.report),
    disappearance: parseDisappearance(options),
    decode(value: Buffer, name: string): Upstream {
      const rules = { defaultId: name, mayHaveHost }
      return decode ? parseUpstream(decode(value, name), rules) : decodeUpstream(value, rules)
    },
  }
  return { kind: 'etcd', open: (observer, context) => new EtcdFeed(settings, observer, context) }
}
