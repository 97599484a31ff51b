import { createHash } from 'node:crypto'
import type { Steps } from '../steps.ts'
import type { RingMember } from './members.ts'
import type { ResolvedRingOptions } from './ring-options.ts'

/** Members hashed in one step. */
const STEP = 1_024

/**
 * 16 hex digits, equal only for rings that place alike: a function of the layout, the settings and the members'
 * ids and weights. The seed goes in only under SHA-256, so the digest may be shown to those who must not know it (a seed
 * from a small range can still be guessed and checked).
 */
export function* placementDigest(
  layout: string,
  { hash, seed, virtualNodes, hashTags }: ResolvedRingOptions,
  members: readonly RingMember[],
): Steps<string> {
  // The JSON of [layout, hash, seed, virtualNodes, hashTags, [[id, weight], …]], piece by piece.
  const settings = JSON.stringify([layout, hash, seed.toString(), virtualNodes, hashTags])
  const digest = createHash('sha256').update(`${settings.slice(0, -1)},[`)
  for (let start = 0; start < members.length; start += STEP) {
    const weights = members.slice(start, start + STEP).map(({ id, weight }) => [id, weight])
    digest.update(`${start === 0 ? '' : ','}${JSON.stringify(weights).slice(1, -1)}`)
    yield
  }
  return digest.update(']]').digest('hex').slice(0, 16)
}
