import { openSync, readSync } from 'node:fs'
import { createHistogram } from 'node:perf_hooks'

const tickMs = 5

/**
 * How long this process holds its event loop up. What it waited for a core, because the machine had other things to
 * do, is taken off where the kernel says how long that was (Linux, `/proc/<pid>/schedstat`).
 */
export class LoopDelay {
  readonly #delays = createHistogram()
  readonly #schedule = openSchedule()
  readonly #text = Buffer.alloc(128)
  #timer: NodeJS.Timeout | undefined

  start(): void {
    let due = performance.now() + tickMs
    let waitedMs = this.#waitedMs()
    const tick = () => {
      const now = performance.now()
      const waited = this.#waitedMs()
      const ownMs = now - due - (waited - waitedMs)
      this.#delays.record(Math.max(1, Math.round(ownMs * 1e6)))
      waitedMs = waited
      due = now + tickMs
      this.#timer = setTimeout(tick, tickMs)
    }
    this.#timer = setTimeout(tick, tickMs)
  }

  stop(): { p99Ms: number; maxMs: number } {
    clearTimeout(this.#timer)
    return { p99Ms: this.#delays.percentile(99) / 1e6, maxMs: this.#delays.max / 1e6 }
  }

  /** Milliseconds that the main thread was ready to run and did not, so far. */
  #waitedMs(): number {
    if (this.#schedule === undefined) return 0
    const length = readSync(this.#schedule, this.#text, 0, this.#text.length, 0)
    return Number(this.#text.toString('latin1', 0, length).split(' ')[1]) / 1e6
  }
}

function openSchedule(): number | undefined {
  try {
    return openSync(`/proc/self/task/${process.pid}/schedstat`, 'r')
  } catch {
    return undefined
  }
}
