import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const program = fileURLToPath(new URL('./upstream-process-main.mjs', import.meta.url))

/** What an upstream does with each request that it has executed; `everyMs` is the time for one byte. */
export type Behaviour =
  | { readonly kind: 'answer'; readonly afterMs?: number }
  | { readonly kind: 'silent' | 'resetWithinBody' | 'reset' | 'endlessHeaders' }
  | { readonly kind: 'unavailable'; readonly retryAfter: number }
  | { readonly kind: 'slowHead' | 'slowBody'; readonly everyMs: number }

/** A real upstream in a process of its own, to be killed, frozen, and started again on the same port. */
export class UpstreamProcess {
  readonly id: string
  readonly #folder = mkdtempSync(join(tmpdir(), 'upstream-test-'))
  readonly #backlog: number
  #child: ChildProcess | undefined
  #port = 0
  #behaviour: Behaviour = { kind: 'answer' }

  private constructor(id: string, backlog: number) {
    this.id = id
    this.#backlog = backlog
  }

  /** `backlog`: connections that its kernel completes before it takes them. */
  static async start(id: string, { backlog = 511 } = {}): Promise<UpstreamProcess> {
    const upstream = new UpstreamProcess(id, backlog)
    await upstream.restart()
    return upstream
  }

  get port(): number {
    return this.#port
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`
  }

  /** The numbers of the requests that it has executed in all its lives, in order. */
  get executed(): number[] {
    return this.#lines().filter(Boolean).map(Number)
  }

  /** How many without a number it has executed. */
  get unnumbered(): number {
    return this.#lines().filter((line) => line === '').length
  }

  /** Resolves when it does. */
  async behave(behaviour: Behaviour): Promise<void> {
    this.#behaviour = behaviour
    this.#child?.send(behaviour)
    if (this.#child) await once(this.#child, 'message')
  }

  signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    this.#child?.kill(signal)
  }

  /** SIGKILL. */
  async kill(): Promise<void> {
    const child = this.#child
    this.#child = undefined
    if (!child) return
    const ended = once(child, 'exit')
    child.kill('SIGKILL')
    await ended
  }

  /** Starts on the port that it had before, and behaves as it did. */
  async restart(): Promise<void> {
    const words = [this.id, String(this.#port), join(this.#folder, 'executed')]
    const child = fork(program, words, { env: { BACKLOG: String(this.#backlog) }, stdio: 'inherit' })
    this.#child = child
    const [port] = await once(child, 'message')
    this.#port = Number(port)
    await this.behave(this.#behaviour)
  }

  async stop(): Promise<void> {
    await this.kill()
    rmSync(this.#folder, { recursive: true, force: true })
  }

  #lines(): string[] {
    return readFileSync(join(this.#folder, 'executed'), 'utf8').split('\n').slice(0, -1)
  }
}
