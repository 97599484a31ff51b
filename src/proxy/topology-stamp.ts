import type { Placement } from '../balancer/placement.ts'
import { decodeTopologyStamp, type TopologyStamp, topologyHeader } from '../topology-headers.ts'

/** The placement in short, as upstreams are told. */
export function topologyStamp({ topology, ring }: Placement): TopologyStamp {
  return { id: topology.id, epoch: topology.epoch, revision: topology.revision, digest: ring.digest }
}

/** What an upstream's answer says of the topology, where that is a newer one than ours. */
export function newerTopology(
  rawHeaders: readonly string[],
  placement: Placement,
): TopologyStamp | undefined {
  const at = rawHeaders.findIndex(
    (name, index) => index % 2 === 0 && name.toLowerCase() === topologyHeader.topology,
  )
  const theirs = at < 0 ? undefined : decodeTopologyStamp(rawHeaders[at + 1])
  if (!theirs) return undefined
  const ours = topologyStamp(placement)
  const isNewer = theirs.id === ours.id && theirs.epoch === ours.epoch && theirs.revision > ours.revision
  return isNewer ? theirs : undefined
}
