import { openSync, readSync } from 'node:fs'

/**
 * How long this process's main thread was ready to run and got no core, because the machine had other things to do:
 * what no code of ours can help. 0 where the kernel does not say (Linux does, `/proc/<pid>/task/<tid>/schedstat`).
 */
export class CoreWait {
  readonly #schedule = openSchedule()
  readonly #text = Buffer.alloc(128)

  /** Milliseconds so far. */
  get milliseconds(): number {
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
