import { xxh64 } from '../../src/ring/xxh64.ts'

/** One point of a ring as the design describes it, in no particular order. */
export interface ScanPoint {
  readonly id: string
  readonly position: bigint
}

/** The points of native placement, straight from its definition. */
export function scanPoints(
  members: readonly { id: string; weight?: number }[],
  virtualNodes: number,
  seed = 0n,
) {
  return members.flatMap(({ id, weight = 1 }) =>
    Array.from({ length: Math.max(1, Math.round(virtualNodes * weight)) }, (_, number): ScanPoint => {
      return { id, position: xxh64(`${id}#${number}`, seed) }
    }),
  )
}

/** The first owner that is not excluded, by looking at every point. */
export function scanOwner(
  points: readonly ScanPoint[],
  position: bigint,
  excluded: ReadonlySet<string> = new Set(),
) {
  let best: { id: string; distance: bigint } | undefined
  for (const { id, position: at } of points) {
    if (excluded.has(id)) continue
    const distance = BigInt.asUintN(64, at - position)
    if (best === undefined || distance < best.distance || (distance === best.distance && id < best.id)) {
      best = { id, distance }
    }
  }
  return best?.id
}
