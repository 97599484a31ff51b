import type { Clock } from '../../clock.ts'
import type { EtcdConnection } from './connection.ts'
import { explain } from './explain.ts'

/** Bounds of the pause between two sessions, in milliseconds: quick after a blip, gentle to an etcd that is away. */
const SHORTEST_PAUSE = 100
const LONGEST_PAUSE = 3000

/** Why a session ended and how long it had been of use, in milliseconds (0: it never came up). */
export interface SessionEnd {
  readonly reason: unknown
  readonly upMs: number
}

export interface SessionLoopOptions {
  readonly connection: EtcdConnection
  readonly clock: Clock
  /** One session with one host, to its end. Never rejects. */
  readonly session: (host: string) => Promise<SessionEnd>
  /** Told after each session what is wrong, host by host, and whether no host is left that might do. */
  readonly onFailure: (message: string, everywhere: boolean) => void
}

/**
 * Runs one session after another: the last good host again, then the others in turn, with a jittered pause
 * that doubles until a session has lasted.
 */
export class SessionLoop {
  readonly #options: SessionLoopOptions
  readonly #done: Promise<void>
  #closed = false
  #wake = () => {}

  constructor(options: SessionLoopOptions) {
    this.#options = options
    this.#done = this.#run()
  }

  /** Starts no further session; resolves when the present one, which the caller ends, is over. */
  async close(): Promise<void> {
    this.#closed = true
    this.#wake()
    await this.#done
  }

  async #run(): Promise<void> {
    const { connection, session, onFailure } = this.#options
    const failures = new Map<string, string>()
    let turn = 0
    let pause = SHORTEST_PAUSE
    while (!this.#closed) {
      const host = connection.hosts[turn % connection.hosts.length] ?? connection.hosts[0]
      const { reason, upMs } = await session(host)
      if (this.#closed) return
      if (upMs > 0) failures.clear()
      else turn += 1
      failures.set(host, explain(reason, connection, host))
      onFailure([...failures.values()].join('; '), failures.size === connection.hosts.length)
      if (upMs > LONGEST_PAUSE) pause = SHORTEST_PAUSE
      await this.#rest(pause)
      pause = Math.min(LONGEST_PAUSE, pause * 2)
    }
  }

  /** Between half of `longest` and all of it, so that gateways which lost etcd together return one by one. */
  #rest(longest: number): Promise<void> {
    const { clock } = this.#options
    return new Promise((resolve) => {
      const timer = clock.setTimeout(resolve, longest * (0.5 + clock.random() / 2))
      this.#wake = () => {
        timer.cancel()
        resolve()
      }
    })
  }
}
