import { createHash } from 'node:crypto'
import type { Upstream } from './topology.ts'

/** A topology's id from what defines it: 16 hexadecimal digits, short enough for a header. */
export function topologyId(...parts: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 16)
}

/**
 * The id of a topology that has no order shared between machines (static, file): its content. So two
 * gateways with one list agree, and revisions that only one process counts are never compared.
 */
export function contentId(upstreams: readonly Upstream[]): string {
  return topologyId('content', JSON.stringify(upstreams))
}

/** Orders by id, code unit by code unit: the same everywhere, unlike a locale's order. */
export function sortedById(upstreams: Iterable<Upstream>): Upstream[] {
  return [...upstreams].sort((left, right) => (left.id < right.id ? -1 : left.id > right.id ? 1 : 0))
}
