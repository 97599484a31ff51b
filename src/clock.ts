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
  /** Calls `callback` once after `milliseconds`. The timer does not keep the process alive. */
  setTimeout(callback: () => void, milliseconds: number): Timer
  /** A number in [0, 1). */
  random(): number
}

/** The process's own clock and generator. */
export const systemClock: Clock = {
  now: () => performance.now(),
  setTimeout(callback, milliseconds) {
    const handle = setTimeout(callback, milliseconds)
    handle.unref()
    return { cancel: () => clearTimeout(handle) }
  },
  random: Math.random,
}
