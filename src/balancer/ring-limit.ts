import type { Upstream } from '../topology/topology.ts'

/** Splits the upstreams where the ring is full. */
export interface RingFit {
  readonly fitting: readonly Upstream[]
  readonly beyond: readonly Upstream[]
}

/**
 * Takes upstreams in the order of their ids while their points fit on a ring of at most `limit` points. The order
 * makes every gateway refuse the same ones, whatever came first.
 */
export function fitOnRing(upstreams: readonly Upstream[], virtualNodes: number, limit: number): RingFit {
  const fitting: Upstream[] = []
  const beyond: Upstream[] = []
  let points = 0
  for (const upstream of upstreams) {
    const wanted = Math.max(1, Math.round(virtualNodes * upstream.weight))
    if (points + wanted > limit) {
      beyond.push(upstream)
      continue
    }
    points += wanted
    fitting.push(upstream)
  }
  return { fitting, beyond }
}
