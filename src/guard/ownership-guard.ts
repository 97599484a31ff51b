import type { IncomingMessage, ServerResponse } from 'node:http'
import { type Clock, systemClock } from '../clock.ts'
import { OptionsError } from '../errors.ts'
import { requireKnown } from '../known-options.ts'
import { type Logger, silentLogger } from '../logger.ts'
import { HashRing } from '../ring/hash-ring.ts'
import type { HashRingOptions } from '../ring/ring-options.ts'
import type { TopologySource } from '../topology/topology.ts'
import { encodeTopologyStamp, topologyHeader } from '../topology-headers.ts'
import { judge } from './judge.ts'
import { TopologyWatch } from './topology-watch.ts'

export interface OwnershipGuardOptions {
  /** Id of the upstream that this guard stands in, as the topology has it. */
  readonly id: string
  /** The topology that the gateways follow. The guard opens a feed of its own. */
  readonly topology: TopologySource
  /** The gateways' ring settings: with others the owners differ. @default those of `HashRing` */
  readonly ring?: HashRingOptions | undefined
  /** @default logs nothing */
  readonly logger?: Logger | undefined
  /** @default the process's own */
  readonly clock?: Clock | undefined
}

/** A Connect middleware that belongs before everything that acts on a request. */
export interface OwnershipGuard {
  (request: IncomingMessage, response: ServerResponse, next: (error?: unknown) => void): void
  /**
   * Resolves with the first topology. Rejects with what the source threw when it was opened, or with `ClosedError`
   * when the guard is closed before. Nothing needs to wait for it: without a topology everything is served.
   */
  ready(): Promise<void>
  /** Stops watching and leaves no handle open; afterwards everything is served. Idempotent. */
  close(): Promise<void>
}

/**
 * For the upstream's side: answers 421 (RFC 9110 §15.5.20) to requests that a gateway sent here by an outdated
 * ring, so that it reads the topology again and the request finds its owner. Refused is only a request whose
 * `x-topology` is older than the guard's own (same id and epoch) and whose first owner, in the guard's ring of
 * active upstreams, is neither the gateway's `x-ring-owner` nor this upstream. Everything else is served. When the
 * gateway is ahead, the guard reads its own source again in the background, at most once a second.
 *
 * Every answer carries the guard's own `x-topology`, by which a gateway sees that a newer revision exists.
 *
 * Throws `OptionsError` for an unknown option, a missing id or topology, and a ring setting out of bounds.
 */
export function ownershipGuard(options: OwnershipGuardOptions): OwnershipGuard {
  requireKnown(options, ['id', 'topology', 'ring', 'logger', 'clock'])
  const { id, topology, ring = {}, logger = silentLogger, clock = systemClock } = options
  if (typeof id !== 'string' || id === '') {
    throw new OptionsError(
      `Expected \`id\` to be the upstream's id, a non-empty string, got \`${String(id)}\``,
    )
  }
  if (typeof topology?.open !== 'function') {
    throw new OptionsError(`Expected \`topology\` to be a topology source, got \`${String(topology)}\``)
  }
  const watch = new TopologyWatch(topology, new HashRing([], ring), clock, logger)

  const guard = (
    request: IncomingMessage,
    response: ServerResponse,
    next: (error?: unknown) => void,
  ): void => {
    const { view } = watch
    if (view !== undefined) {
      response.setHeader(topologyHeader.topology, encodeTopologyStamp(view.stamp))
      const judgement = judge(request.headers, id, view)
      if (judgement === 'misdirected') {
        refuse(response)
        return
      }
      if (judgement === 'behind') watch.catchUp()
    }
    next()
  }
  return Object.assign(guard, { ready: () => watch.ready, close: () => watch.close() })
}

function refuse(response: ServerResponse): void {
  response.statusCode = 421
  response.setHeader('content-type', 'text/plain; charset=utf-8')
  response.end('Misdirected request: this key has another owner in a newer topology.\n')
}
