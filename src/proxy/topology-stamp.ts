import type { Placement } from '../balancer/placement.ts'
import type { RegisteredUpstream } from '../balancer/registered-upstream.ts'
import { valuesOf } from '../http/header-fields.ts'
import type { Upstream } from '../topology/topology.ts'
import {
  decodeTopologyStamp,
  encodeRingOwner,
  encodeTopologyStamp,
  type TopologyStamp,
  topologyHeader,
} from '../topology-headers.ts'

/** The placement in short, as upstreams are told. */
export function topologyStamp({ topology, ring }: Placement): TopologyStamp {
  return { id: topology.id, epoch: topology.epoch, revision: topology.revision, digest: ring.digest }
}

/** Headers that are the same for all requests on one placement, made with the first of them. */
const topologyValues = new WeakMap<Placement, string>()
const ringOwnerValues = new WeakMap<Upstream, string>()

/** The value of `x-topology` for requests on this placement. */
export function topologyValue(placement: Placement): string {
  let value = topologyValues.get(placement)
  if (value === undefined) {
    value = encodeTopologyStamp(topologyStamp(placement))
    topologyValues.set(placement, value)
  }
  return value
}

/** The value of `x-ring-owner` for requests of this owner. */
export function ringOwnerValue({ spec }: RegisteredUpstream): string {
  let value = ringOwnerValues.get(spec)
  if (value === undefined) {
    value = encodeRingOwner(spec.id)
    ringOwnerValues.set(spec, value)
  }
  return value
}

/** What an upstream's answer says of the topology, where that is a newer one than ours. */
export function newerTopology(
  rawHeaders: readonly string[],
  placement: Placement,
): TopologyStamp | undefined {
  const value = valuesOf(rawHeaders, topologyHeader.topology)
  const theirs = value === undefined ? undefined : decodeTopologyStamp(value)
  if (!theirs) return undefined
  const ours = topologyStamp(placement)
  const isNewer = theirs.id === ours.id && theirs.epoch === ours.epoch && theirs.revision > ours.revision
  return isNewer ? theirs : undefined
}
