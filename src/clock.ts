/** A pending timer. */
export interface Timer {
  cancel(): void
}

/**
 * The only source of time and chance in the library. Everything that waits or measures gets one of these,
 * so that tests can move time by hand and replay a seed.
 */
export interface Clock {
  /** Milliseconds on a clock that never goes back; its zero means nothing. */
  now(): number
  /**
   * Calls `callback` once after `milliseconds`. The process may end before that, unless `keepProcessAlive` is set: for
   * a wait that somebody was promised the end of.
   */
  setTimeout(callback: () => void, milliseconds: number, options?: { keepProcessAlive: boolean }): Timer
  /** A number in [0, 1). */
  random(): number
}

/** The process's own clock and generator. */
export const systemClock: Clock = {
  now: () => performance.now(),
  setTimeout(callback, milliseconds, options) {
    const handle = setTimeout(callback, milliseconds)
    if (!options?.keepProcessAlive) handle.unref()
    return { cancel: () => clearTimeout(handle) }
  },
  random: Math.random,
}
