import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { eventually } from '../support/servers.ts'

/** Builds the examples unless they are up to date: for `beforeAll`. */
export function build(): void {
  execFileSync(process.execPath, [fileURLToPath(new URL('../../scripts/prepare.mjs', import.meta.url))])
}

/** An example as a child process, with what it prints. */
export class Program {
  readonly #child: ChildProcess
  readonly #ended: Promise<unknown>
  stdout = ''
  stderr = ''

  constructor(example: 'gateway' | 'upstream', environment: Record<string, string>) {
    const path = fileURLToPath(new URL(`../../examples/dist/${example}.js`, import.meta.url))
    this.#child = spawn(process.execPath, [path], {
      env: { PATH: process.env.PATH, PORT: '0', ADMIN_PORT: '0', ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    this.#ended = once(this.#child, 'close')
    this.#child.stdout?.setEncoding('utf8').on('data', (text) => {
      this.stdout += text
    })
    this.#child.stderr?.setEncoding('utf8').on('data', (text) => {
      this.stderr += text
    })
  }

  /** Waits for what it prints, and returns what the first group of `pattern` matched. */
  async prints(pattern: RegExp): Promise<string> {
    await eventually(`${pattern} on stdout`, () => {
      if (this.#child.exitCode !== null)
        throw new Error(`ended with code ${this.#child.exitCode}: ${this.stderr}`)
      return pattern.test(this.stdout)
    })
    return pattern.exec(this.stdout)?.[1] ?? ''
  }

  /** Sends a signal without waiting. */
  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal)
  }

  /** Waits for its end; the exit code, or the signal that ended it. */
  async ended(): Promise<number | string | null> {
    await this.#ended
    return this.#child.exitCode ?? this.#child.signalCode
  }

  async stop(): Promise<number | string | null> {
    this.signal('SIGTERM')
    return this.ended()
  }
}

/** Starts an example on free ports; killed when the test is over. */
export function start(example: 'gateway' | 'upstream', environment: Record<string, string> = {}): Program {
  const program = new Program(example, environment)
  onTestFinished(async () => {
    program.signal('SIGKILL')
    await program.ended()
  })
  return program
}

/** A gateway that listens. */
export async function startGatewayProgram(environment: Record<string, string> = {}) {
  const program = start('gateway', environment)
  const url = await program.prints(/Gateway on (\S+),/)
  const adminUrl = await program.prints(/Admin on (\S+):/)
  return { program, url, adminUrl }
}
