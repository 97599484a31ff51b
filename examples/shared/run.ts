import { ConsistentHashProxyError } from 'consistent-hash-proxy'

/** What whoever starts the program can put right: told in one line, without a stack. */
export class StartError extends Error {}

/** Runs a program to its end: exit code 0, or 1 and what went wrong. */
export function run(program: () => Promise<void>): void {
  program().then(
    () => process.exit(0),
    (error) => {
      const forPeople = error instanceof StartError || error instanceof ConsistentHashProxyError
      console.error(forPeople ? error.message : error)
      process.exit(1)
    },
  )
}

/** Whether the program has been told to stop. */
export interface Stop {
  readonly asked: boolean
  readonly whenAsked: Promise<void>
}

/**
 * Listens for SIGTERM and SIGINT. Further ones change nothing: npm passes on the Ctrl-C that the terminal has sent to
 * all of its programs already.
 */
export function listenForStop(): Stop {
  let asked = false
  const whenAsked = new Promise<void>((resolve) => {
    const ask = () => {
      asked = true
      resolve()
    }
    process.on('SIGTERM', ask).on('SIGINT', ask)
  })
  return {
    get asked() {
      return asked
    },
    whenAsked,
  }
}
