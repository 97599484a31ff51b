import { isDeepStrictEqual } from 'node:util'
import type { Topology, TopologyObserver } from '../topology/topology.ts'
import type { ProxyEventEmitter } from './events.ts'

/** Turns what a source reports into events; `apply` takes each topology first, `failed` hears that none may come. */
export function observeSource(
  events: ProxyEventEmitter,
  apply: (topology: Topology) => void,
  failed: () => void,
): TopologyObserver {
  let away = false
  let held: readonly string[] = []
  return {
    onTopology(topology) {
      apply(topology)
      const upstreams = topology.held ?? []
      if (!isDeepStrictEqual(upstreams, held)) events.emit('held', { upstreams })
      held = upstreams
    },
    onStatus(status) {
      const error = 'error' in status ? status.error : undefined
      if (error !== undefined) {
        failed()
        events.emit('sourceLost', { error })
      } else if (status.state === 'live' && away) events.emit('sourceRegained')
      away = error !== undefined
    },
    onDisagreement: (gateways) => events.emit('digestMismatch', { gateways }),
    onRefused: (entry, { reason, message }) => events.emit('refused', { entry, reason, message }),
  }
}
