/**
 * Below this an upstream would get too little to become warm at all (Envoy's `min_weight_percent` has the
 * same default).
 */
const smallest = 0.1

/**
 * The share of its capacity, in [0.1, 1], that an upstream has at `now` when it is there since `since`:
 * linear over `durationMs` (all in milliseconds of one clock). A duration of 0 turns the ramp off.
 */
export function rampFactor(now: number, since: number, durationMs: number): number {
  if (durationMs <= 0) return 1
  return Math.min(1, Math.max(smallest, (now - since) / durationMs))
}
