import { createHash } from 'node:crypto'
import type { RingMember } from './members.ts'
import type { ResolvedRingOptions } from './ring-options.ts'

/**
 * 16 hex digits, equal only for rings that place alike: a function of the layout, the settings and the members'
 * ids and weights. The seed goes in only under SHA-256, so the digest may be shown to those who must not know it (a seed
 * from a small range can still be guessed and checked).
 */
export function placementDigest(
  layout: string,
  { hash, seed, virtualNodes, hashTags }: ResolvedRingOptions,
  members: readonly RingMember[],
): string {
  const weights = members.map(({ id, weight }) => [id, weight])
  const placement = JSON.stringify([layout, hash, seed.toString(), virtualNodes, hashTags, weights])
  return createHash('sha256').update(placement).digest('hex').slice(0, 16)
}
