import { createHistogram } from 'node:perf_hooks'
import { CoreWait } from './core-wait.ts'

const tickMs = 5

/** How long this process holds its event loop up; what it waited for a core is taken off. */
export class LoopDelay {
  readonly #delays = createHistogram()
  readonly #wait = new CoreWait()
  #timer: NodeJS.Timeout | undefined

  start(): void {
    let due = performance.now() + tickMs
    let waitedMs = this.#wait.milliseconds
    const tick = () => {
      const ownMs = performance.now() - due - (this.#wait.milliseconds - waitedMs)
      this.#delays.record(Math.max(1, Math.round(ownMs * 1e6)))
      waitedMs = this.#wait.milliseconds
      due = performance.now() + tickMs
      this.#timer = setTimeout(tick, tickMs)
    }
    this.#timer = setTimeout(tick, tickMs)
  }

  stop(): { p99Ms: number; maxMs: number } {
    clearTimeout(this.#timer)
    return { p99Ms: this.#delays.percentile(99) / 1e6, maxMs: this.#delays.max / 1e6 }
  }
}
