import type { EjectionCause } from '../breaker/failure-kind.ts'
import { roundingSlack } from './capacity.ts'

/** What becomes of the ejected upstreams. Each of them is in exactly one of the two sets. */
export interface CappedEjections<U> {
  /** Get no request. */
  readonly excluded: ReadonlySet<U>
  /** Above the cap: come last in the walk, whatever their breaker or health check says. */
  readonly lastResort: ReadonlySet<U>
  /** Some ejected upstream had to stay, because too much of the cluster is ejected. */
  readonly panic: boolean
}

/**
 * Decides which ejections hold, so that a fault that looks the same everywhere (a bad release, a slow
 * database) does not take the whole cluster out.
 *
 * - Ejections by `answers` (bad answers, timeouts, failing health checks) hold in the order in which they
 *   came, while their weights sum up to at most `maxEjectionPercent` of all weights. The first one holds
 *   beyond that if another upstream is not ejected at all.
 * - Ejections by `connect` always hold and use nothing up: nobody would be served there.
 * - An `answers` ejection never takes the last upstream that can be connected to, and a set of one upstream
 *   has no ejection at all.
 *
 * @param upstreams all upstreams on the ring, with their configured weights
 * @param ejected those of them that are ejected, in the order of their ejection
 * @param maxEjectionPercent of the weight, 0 to 100
 */
export function capEjections<U extends { readonly weight: number }>(
  upstreams: readonly U[],
  ejected: ReadonlyMap<U, EjectionCause>,
  maxEjectionPercent: number,
): CappedEjections<U> {
  const excluded = new Set<U>()
  const lastResort = new Set<U>()
  if (ejected.size === 0) return { excluded, lastResort, panic: false }
  if (upstreams.length > 1) {
    for (const [upstream, cause] of ejected) if (cause === 'connect') excluded.add(upstream)
  }
  const totalWeight = upstreams.reduce((sum, upstream) => sum + upstream.weight, 0)
  const cap = (totalWeight * maxEjectionPercent * (1 + roundingSlack)) / 100
  const someEligible = ejected.size < upstreams.length
  let weight = 0
  for (const upstream of ejected.keys()) {
    if (excluded.has(upstream)) continue
    const isFirst = weight === 0
    weight += upstream.weight
    const holds = weight <= cap || (isFirst && someEligible)
    if (holds && excluded.size + 1 < upstreams.length) excluded.add(upstream)
    else lastResort.add(upstream)
  }
  return { excluded, lastResort, panic: lastResort.size > 0 }
}
