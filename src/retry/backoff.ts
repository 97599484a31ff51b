export interface BackoffOptions {
  /** Upper bound of the first delay, in milliseconds. */
  readonly baseMs: number
  /** Upper bound of every delay, in milliseconds. */
  readonly maxMs: number
}

/**
 * Milliseconds to wait before the given retry (1 for the first): exponential backoff with full jitter, that
 * is evenly distributed between 0 and min(maxMs, baseMs × 2^(retry − 1)). Of the variants compared in
 * "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015) it makes the fewest calls.
 */
export function backoffDelay(retry: number, options: BackoffOptions, random: () => number): number {
  return random() * Math.min(options.maxMs, options.baseMs * 2 ** (retry - 1))
}
