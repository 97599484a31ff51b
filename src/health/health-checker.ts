import type { Clock } from '../clock.ts'
import { ProbeLoop, type ProbeLoopOptions } from './probe-loop.ts'

export interface HealthCheckerOptions extends ProbeLoopOptions {
  /** Path asked for with GET, beginning with a slash, below the base path of the upstream's URL; may have a query. */
  readonly path: string
}

/** Active health checks: asks every upstream, on its own schedule, whether it is well. */
export class HealthChecker {
  readonly #options: HealthCheckerOptions
  readonly #clock: Clock
  readonly #onChange: (id: string, healthy: boolean) => void
  readonly #loops = new Map<string, { readonly url: string; readonly loop: ProbeLoop }>()
  #closed = false

  /**
   * `onChange` is called whenever the answer of `isHealthy` changes for an upstream of the set, and must not
   * throw.
   */
  constructor(options: HealthCheckerOptions, clock: Clock, onChange: (id: string, healthy: boolean) => void) {
    this.#options = options
    this.#clock = clock
    this.#onChange = onChange
  }

  /**
   * Checks these upstreams from now on and no others. One that stays keeps its counters; one whose URL changed
   * starts anew, as healthy. After `close` it does nothing.
   */
  update(upstreams: readonly { readonly id: string; readonly url: string }[]): void {
    if (this.#closed) return
    const urls = new Map(upstreams.map(({ id, url }) => [id, url]))
    for (const [id, { loop }] of this.#loops) if (!urls.has(id)) this.#stop(id, loop)
    for (const [id, url] of urls) {
      const running = this.#loops.get(id)
      if (running?.url === url) continue
      if (running !== undefined) this.#stop(id, running.loop)
      this.#start(id, url)
      if (running?.loop.healthy === false) this.#onChange(id, true)
    }
  }

  /** False when the last checks failed; true for every upstream not known to be unhealthy. */
  isHealthy(id: string): boolean {
    return this.#loops.get(id)?.loop.healthy ?? true
  }

  /** Stops all checks, also those under way, and leaves no handle open. Idempotent. */
  close(): void {
    this.update([])
    this.#closed = true
  }

  #start(id: string, url: string): void {
    const target = below(url, this.#options.path)
    const loop = new ProbeLoop(target, this.#options, this.#clock, (healthy) => this.#onChange(id, healthy))
    this.#loops.set(id, { url, loop })
  }

  #stop(id: string, loop: ProbeLoop): void {
    loop.stop()
    this.#loops.delete(id)
  }
}

/** `path` below the base path of `url`: not what `new URL(path, url)` does, which would drop the base. */
function below(url: string, path: string): URL {
  const { origin, pathname } = new URL(url)
  return new URL(origin + pathname.replace(/\/$/, '') + path)
}
