import type { Clock, Timer } from '../clock.ts'
import { HealthRecord, type HealthThresholds } from './health-record.ts'
import { type ProbeOptions, probe } from './probe.ts'

export interface ProbeLoopOptions extends ProbeOptions, HealthThresholds {
  /** Time from the end of one check to the next, in milliseconds. Default 5,000. */
  readonly intervalMs: number
  /** Share of the interval by which chance lengthens or shortens it, 0 to 1. Default 0.2. */
  readonly jitter: number
}

/** Checks one upstream again and again until it is stopped, never twice at a time. */
export class ProbeLoop {
  readonly #target: URL
  readonly #options: ProbeLoopOptions
  readonly #clock: Clock
  readonly #onChange: (healthy: boolean) => void
  readonly #record: HealthRecord
  readonly #stopping = new AbortController()
  #timer: Timer

  constructor(target: URL, options: ProbeLoopOptions, clock: Clock, onChange: (healthy: boolean) => void) {
    this.#target = target
    this.#options = options
    this.#clock = clock
    this.#onChange = onChange
    this.#record = new HealthRecord(options)
    // The upstreams of one topology arrive together: spread their first checks.
    this.#timer = this.#checkAfter(options.intervalMs * options.jitter * clock.random())
  }

  get healthy(): boolean {
    return this.#record.healthy
  }

  /** Nothing is heard of it any more, not even the result of a check under way. */
  stop(): void {
    this.#timer.cancel()
    this.#stopping.abort()
  }

  #checkAfter(milliseconds: number): Timer {
    return this.#clock.setTimeout(() => void this.#check(), milliseconds)
  }

  async #check(): Promise<void> {
    const { signal } = this.#stopping
    const passed = await probe(this.#target, this.#options, this.#clock, signal)
    if (signal.aborted) return
    const { intervalMs, jitter } = this.#options
    this.#timer = this.#checkAfter(intervalMs * (1 + jitter * (2 * this.#clock.random() - 1)))
    if (this.#record.record(passed)) this.#onChange(passed)
  }
}
