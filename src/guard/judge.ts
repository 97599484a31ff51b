import type { IncomingHttpHeaders } from 'node:http'
import type { HashRing } from '../ring/hash-ring.ts'
import {
  decodeKeyHash,
  decodeRingOwner,
  decodeTopologyStamp,
  type TopologyStamp,
  topologyHeader,
} from '../topology-headers.ts'

/** What an upstream knows of the topology at one moment. */
export interface GuardView {
  readonly stamp: TopologyStamp
  /** The ring of the active upstreams. */
  readonly ring: HashRing
}

/** `serve` it; refuse it as `misdirected`; or serve it and read the topology again, being `behind` the gateway. */
export type Judgement = 'serve' | 'misdirected' | 'behind'

/**
 * Whether a request came here by an outdated ring. Misdirected is only what an older revision of the same topology
 * sent, and what the newer ring gives to neither this upstream nor the owner that the gateway had in mind: then
 * that owner is wrong, whatever brought the request here. Overflow, retries and reads at the previous owner name
 * the right owner, or come by a revision that is not older, and are served; so is all that cannot be told.
 */
export function judge(headers: IncomingHttpHeaders, self: string, { stamp, ring }: GuardView): Judgement {
  const sent = decodeTopologyStamp(headers[topologyHeader.topology])
  if (sent === undefined || sent.id !== stamp.id || sent.epoch !== stamp.epoch) return 'serve'
  if (sent.revision > stamp.revision) return 'behind'
  if (sent.revision === stamp.revision) return 'serve'
  const intended = decodeRingOwner(headers[topologyHeader.ringOwner])
  const position = decodeKeyHash(headers[topologyHeader.keyHash])
  if (intended === undefined || position === undefined) return 'serve'
  const owner = ring.members[ring.memberAt(ring.firstPoint(position))]?.id
  return owner === undefined || owner === intended || owner === self ? 'serve' : 'misdirected'
}
