import type { Placement } from '../balancer/placement.ts'
import { decodeTopologyStamp, type TopologyStamp, topologyHeader } from '../topology-headers.ts'

/** The placement in short, as upstreams are told. */
export function topologyStamp({ topology, ring }: Placement): TopologyStamp {
  return { id: topology.id, epoch: topology.epoch, revision: topology.revision, digest: ring.digest }
}

/** Whether an upstream's answer shows that it knows a newer topology with another placement. */
export function showsNewerTopology(rawHeaders: readonly string[], placement: Placement): boolean {
  const at = rawHeaders.findIndex(
    (name, index) => index % 2 === 0 && name.toLowerCase() === topologyHeader.topology,
  )
  const theirs = at < 0 ? undefined : decodeTopologyStamp(rawHeaders[at + 1])
  if (!theirs) return false
  const ours = topologyStamp(placement)
  return (
    theirs.id === ours.id &&
    theirs.epoch === ours.epoch &&
    theirs.revision > ours.revision &&
    theirs.digest !== ours.digest
  )
}
