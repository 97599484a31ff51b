import { setTimeout as sleep } from 'node:timers/promises'
import type { EtcdProcess } from '../support/etcd.ts'
import type { Relay } from '../support/relay.ts'
import type { UpstreamProcess } from '../support/upstream-process.ts'

export interface CommotionOptions {
  readonly etcd: EtcdProcess
  /** Between the gateway and etcd. */
  readonly relay: Relay
  readonly upstreams: readonly UpstreamProcess[]
  readonly prefix: string
  readonly random: () => number
}

/** Random changes of topology and faults, one at a time, each ended before the next begins. */
export class Commotion {
  readonly #options: CommotionOptions
  readonly #counts = new Map<string, number>()

  constructor(options: CommotionOptions) {
    this.#options = options
  }

  async registerAll(): Promise<void> {
    for (const upstream of this.#options.upstreams) await this.#register(upstream)
  }

  /** One of them. */
  async once(): Promise<void> {
    const upstream = this.#pick(this.#options.upstreams)
    const [name, act] = this.#pick(Object.entries(this.#acts))
    this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1)
    await act(upstream)
    await sleep(this.#options.random() * 500)
  }

  /** Everything as it was at first. */
  async calm(): Promise<void> {
    const { etcd, prefix } = this.#options
    await etcd.client.delete().prefix(`${prefix}overrides/`)
    await this.registerAll()
  }

  summary(): string {
    return [...this.#counts].map(([name, count]) => `${name} ${count}`).join(', ')
  }

  readonly #acts: Record<string, (upstream: UpstreamProcess) => Promise<unknown>> = {
    leave: (upstream) => this.#options.etcd.delete(`${this.#options.prefix}upstreams/${upstream.id}`),
    come: (upstream) => this.#register(upstream),
    weigh: (upstream) => this.#register(upstream, 1 + Math.floor(this.#options.random() * 4)),
    drain: ({ id }) =>
      this.#options.etcd.put(`${this.#options.prefix}overrides/${id}`, { state: 'draining' }),
    refuse: ({ id }) => this.#options.etcd.put(`${this.#options.prefix}upstreams/${id}`, '{"url":"ftp://a"}'),
    kill: async (upstream) => {
      await upstream.kill()
      await this.#while(300)
      await upstream.restart()
    },
    freeze: async (upstream) => {
      upstream.signal('SIGSTOP')
      await this.#while(1_500)
      upstream.signal('SIGCONT')
    },
    misbehave: async (upstream) => {
      const kinds = ['silent', 'reset', 'resetWithinBody', 'endlessHeaders'] as const
      await upstream.behave({ kind: this.#pick(kinds) })
      await this.#while(1_000)
      await upstream.behave({ kind: 'answer' })
    },
    'cut etcd': async () => this.#options.relay.reset(),
    'stall etcd': async () => {
      this.#options.relay.stall()
      await this.#while(1_000)
      this.#options.relay.resume()
    },
    'compact etcd': async (upstream) => {
      await this.#register(upstream) // the same revision is not compacted twice
      await this.#options.etcd.compact()
    },
    'kill etcd': async () => {
      await this.#options.etcd.kill()
      await this.#while(500)
      await this.#options.etcd.start()
    },
  }

  #register({ id, url }: UpstreamProcess, weight = 1): Promise<unknown> {
    return this.#options.etcd.put(`${this.#options.prefix}upstreams/${id}`, { url, weight })
  }

  #while(longestMs: number): Promise<void> {
    return sleep(this.#options.random() * longestMs)
  }

  #pick<T>(items: readonly T[]): T {
    const item = items[Math.floor(this.#options.random() * items.length)]
    if (item === undefined) throw new Error('expected something to pick from')
    return item
  }
}
