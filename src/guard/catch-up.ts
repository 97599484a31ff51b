import type { Clock } from '../clock.ts'

/** Least time between the starts of two reads, as for the gateway's own re-reads. */
const INTERVAL_MS = 1_000

/**
 * Wraps `read` so that it may be asked for by every request: one read at a time, at most one a second, what comes
 * in between is dropped. `onError` hears of failures; the next request after a second tries again.
 */
export function catchUp(
  read: () => Promise<void>,
  clock: Clock,
  onError: (error: unknown) => void,
): () => void {
  let reading = false
  let startedAt = Number.NEGATIVE_INFINITY
  return async () => {
    if (reading || clock.now() - startedAt < INTERVAL_MS) return
    reading = true
    startedAt = clock.now()
    try {
      await read()
    } catch (error) {
      onError(error)
    } finally {
      reading = false
    }
  }
}
