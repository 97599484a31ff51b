import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

const loader = fileURLToPath(new URL('../../test/support/typescript-loader.mjs', import.meta.url))

/** First message of a child: what it listens on, or why it cannot. */
export type Greeting = { readonly ports: readonly number[] } | { readonly error: string }

/** A Node.js process of the benchmark: it greets with its ports, tells its CPU time when asked, and ends with us. */
export class Child {
  readonly ports: readonly number[]
  readonly #process: ChildProcess

  private constructor(process: ChildProcess, ports: readonly number[]) {
    this.#process = process
    this.ports = ports
  }

  /**
   * Runs a file of this folder.
   * @throws Error with the child's own reason, when it cannot do its part
   */
  static async start(file: string, settings: object, nodeFlags: readonly string[] = []): Promise<Child> {
    const child = fork(fileURLToPath(new URL(file, import.meta.url)), [JSON.stringify(settings)], {
      execArgv: [...nodeFlags, '--import', loader],
    })
    const greeting = await Promise.race([
      once(child, 'message').then(([message]) => message as Greeting),
      once(child, 'exit').then(([code]): Greeting => ({ error: `it ended with code ${code}` })),
    ])
    if ('ports' in greeting) return new Child(child, greeting.ports)
    child.disconnect()
    throw new Error(greeting.error)
  }

  /** User and system time of all its threads since its start. */
  async cpuMicroseconds(): Promise<number> {
    this.#process.send('cpu')
    const [microseconds] = await once(this.#process, 'message')
    return Number(microseconds)
  }

  /** The child ends by itself, so that a profile of it gets written. */
  async stop(): Promise<void> {
    const ended = once(this.#process, 'exit')
    this.#process.disconnect()
    await ended
  }
}
