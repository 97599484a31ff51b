import { OptionsError } from '../errors.ts'
import { contentId, sortedById } from './content.ts'
import { show } from './fields.ts'
import { type UpstreamInput, upstreamOption } from './parse-upstream.ts'
import type { SourceStatus, Topology, TopologySource, Upstream } from './topology.ts'
import { hostFilter } from './upstream-url.ts'

/**
 * A topology that never changes. Its feed calls `onTopology` before `open` returns. Throws OptionsError for
 * an empty list, an upstream that is not one, and two upstreams with one id.
 */
export function staticTopology(upstreams: readonly UpstreamInput[]): TopologySource {
  const topology = parse(upstreams)
  return {
    kind: 'static',
    open(observer) {
      let status: SourceStatus = { state: 'live' }
      observer.onStatus(status)
      observer.onTopology(topology)
      return {
        get status() {
          return status
        },
        refresh: async () => {},
        async close() {
          if (status.state === 'closed') return
          status = { state: 'closed' }
          observer.onStatus(status)
        },
      }
    },
  }
}

function parse(inputs: readonly UpstreamInput[]): Topology {
  if (!Array.isArray(inputs) || inputs.length === 0) {
    throw new OptionsError(`topology: expected a list of at least one upstream, got ${show(inputs)}`)
  }
  const found = new Map<string, Upstream>()
  const rules = { mayHaveHost: hostFilter(undefined) }
  for (const [index, input] of inputs.entries()) {
    const upstream = upstreamOption(`topology[${index}]`, input, rules)
    if (found.has(upstream.id)) {
      throw new OptionsError(`topology[${index}]: expected an id of its own, got ${show(upstream.id)} again`)
    }
    found.set(upstream.id, upstream)
  }
  const sorted = sortedById(found.values())
  return { id: contentId(sorted), epoch: 0, revision: 0n, upstreams: sorted, degraded: false }
}
