import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { ConsistentHashProxyOptions, EtcdTopologyOptions, ProxyStatus } from '../../src/index.ts'

const at = (name: string) => fileURLToPath(new URL(name, import.meta.url))

/** Options of a gateway that can be sent as JSON. */
export interface GatewaySettings
  extends Pick<
    ConsistentHashProxyOptions,
    'ring' | 'boundedLoad' | 'circuitBreaker' | 'retry' | 'timeouts' | 'limits' | 'slowStart'
  > {
  readonly etcd?: EtcdTopologyOptions
  readonly upstreams?: readonly { readonly id: string; readonly url: string }[]
}

/** What a gateway's process has counted since its start: asking takes it no time. */
export interface GatewayProgress {
  /** Of the topology in use. */
  readonly revision: string
  readonly changes: number
  /** Upstreams. */
  readonly present: number
  /** Values of upstreams. */
  readonly refused: number
}

/** What a gateway's process knows of itself, after a garbage collection: asking stops it for a while. */
export interface GatewayReport {
  readonly status: ProxyStatus
  /** In Prometheus's text format. */
  readonly metrics: string
  /** Event loop delay from `measure` to the first report. */
  readonly delayP99Ms: number
  readonly delayMaxMs: number
  readonly heapBytes: number
  readonly handles: number
  /** Of the process and its server. */
  readonly listeners: number
  /** Of the process: listeners that pile up on one object are among them. */
  readonly warnings: readonly string[]
  /** From clients. */
  readonly connections: number
}

/** A real gateway in a process of its own, to be killed. */
export class GatewayProcess {
  readonly port: number
  readonly #child: ChildProcess

  private constructor(child: ChildProcess, port: number) {
    this.#child = child
    this.port = port
  }

  /** Resolves once it listens, which is before its topology is in. */
  static async start(settings: GatewaySettings): Promise<GatewayProcess> {
    const child = fork(at('./gateway-process-main.ts'), [JSON.stringify(settings)], {
      execArgv: ['--expose-gc', '--import', at('./typescript-loader.mjs')],
    })
    const [port] = await once(child, 'message')
    return new GatewayProcess(child, Number(port))
  }

  /** Resolves once `condition` holds of its progress. */
  async until(condition: (progress: GatewayProgress) => boolean, milliseconds = 20_000): Promise<void> {
    const deadline = performance.now() + milliseconds
    for (;;) {
      const progress = await this.progress()
      if (condition(progress)) return
      if (performance.now() > deadline) {
        throw new Error(`not within ${milliseconds} ms: ${condition}; ${JSON.stringify(progress)}`)
      }
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }

  progress(): Promise<GatewayProgress> {
    return this.#ask('progress')
  }

  report(): Promise<GatewayReport> {
    return this.#ask('report')
  }

  /** Measures its event loop's delay from now on. */
  async measure(): Promise<void> {
    await this.#ask('measure')
  }

  /** SIGKILL. */
  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const ended = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await ended
  }

  async #ask<Answer>(what: 'measure' | 'progress' | 'report'): Promise<Answer> {
    this.#child.send(what)
    const [answer] = await once(this.#child, 'message')
    return answer
  }
}
