import type { ResolvedRingOptions } from './ring-options.ts'
import { xxh64 } from './xxh64.ts'

/**
 * Where points and keys lie on the circle of 2^64 positions; all that tells one kind of ring from another.
 * A layout with a narrower hash moves its values up to the top bits, which keeps their order.
 */
export interface Layout {
  /** Part of the digest: another name, another placement. */
  readonly name: string
  /** How many points an upstream of this weight has, at least one. */
  virtualNodes(weight: number): number
  /** The positions of the first `count` points of upstream `id`, in the order of their number. */
  points(id: string, count: number): bigint[]
  /** The position of a key. */
  position(key: string): bigint
}

/**
 * The library's own: point `i` of upstream `id` lies at XXH64(`id#i`), a key at XXH64(key). Points are numbered
 * from 0, so a changed weight adds or removes only the upstream's own last points.
 */
export function nativeLayout({ virtualNodes, seed }: ResolvedRingOptions): Layout {
  return {
    name: 'native',
    virtualNodes: (weight) => Math.max(1, Math.round(virtualNodes * weight)),
    points: (id, count) => Array.from({ length: count }, (_, number) => xxh64(`${id}#${number}`, seed)),
    position: (key) => xxh64(key, seed),
  }
}
