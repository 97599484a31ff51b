import type { Clock, Timer } from '../../src/clock.ts'

/** mulberry32: a small generator whose whole sequence follows from `seed`, so that a failure can be replayed. */
export function seededRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** A clock that stands still until it is told to move. Starts at 0. */
export class ManualClock implements Clock {
  readonly random: () => number
  #now = 0
  /** In order of setting, so that timers due at one moment fire in that order. */
  readonly #pending = new Set<{ readonly due: number; readonly callback: () => void }>()

  constructor(random: () => number = seededRandom(1)) {
    this.random = random
  }

  /** Timers set and neither fired nor cancelled: 0 when nothing was left behind. */
  get pendingTimers(): number {
    return this.#pending.size
  }

  now(): number {
    return this.#now
  }

  setTimeout(callback: () => void, milliseconds: number): Timer {
    const timer = { due: this.#now + Math.max(0, milliseconds), callback }
    this.#pending.add(timer)
    return { cancel: () => this.#pending.delete(timer) }
  }

  /** Moves time on, firing what falls due in order, each at its own moment; also what those set meanwhile. */
  advance(milliseconds: number): void {
    const end = this.#now + milliseconds
    for (;;) {
      let next: { readonly due: number; readonly callback: () => void } | undefined
      for (const timer of this.#pending) {
        if (timer.due <= end && (next === undefined || timer.due < next.due)) next = timer
      }
      if (next === undefined) break
      this.#pending.delete(next)
      this.#now = next.due
      next.callback()
    }
    this.#now = end
  }
}
