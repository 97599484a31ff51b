import type { PoolOptions } from './connection-pools.ts'
import type { Target } from './transport.ts'
import { type ConnectionOwner, type ConnectionUser, UndiciConnection } from './undici-connection.ts'

/** Who waits for a connection. */
export interface PoolUser extends ConnectionUser {
  /** Gets one, and gives it back with `release` or `discard`. */
  take(connection: UndiciConnection): void
}

/** The connections to one upstream: the one used last is used next, and those beyond the limit wait their turn. */
export class UndiciPool implements ConnectionOwner {
  session: Buffer | undefined
  readonly #target: Target
  readonly #options: PoolOptions
  readonly #all = new Set<UndiciConnection>()
  readonly #idle: UndiciConnection[] = []
  readonly #waiting = new Set<PoolUser>()
  #isRetired = false

  constructor(target: Target, options: PoolOptions) {
    this.#target = target
    this.#options = options
  }

  /** Lends a connection, now or when one is free. */
  lend(user: PoolUser): void {
    const connection = this.#idle.pop() ?? this.#grown()
    if (connection) this.#give(connection, user)
    else this.#waiting.add(user)
  }

  /** `user` waits no longer. */
  forget(user: PoolUser): void {
    this.#waiting.delete(user)
  }

  /** Takes back a connection whose exchange is over. */
  release(connection: UndiciConnection): void {
    if (this.#isRetired) this.discard(connection)
    else if (!this.#serveNext(connection)) this.#idle.push(connection)
  }

  /** Closes a connection, whatever is under way on it. */
  discard(connection: UndiciConnection): void {
    if (!this.#all.delete(connection)) return
    connection.destroy()
    // Not at once: whoever waits may be giving up for the same reason.
    if (this.#waiting.size > 0) queueMicrotask(() => this.#serveWaiting())
  }

  /** Called by a connection that is closed: an idle one is forgotten, any other is its user's. */
  closed(connection: UndiciConnection): void {
    const index = this.#idle.indexOf(connection)
    if (index === -1) return
    this.#idle.splice(index, 1)
    this.discard(connection)
  }

  /** Closes what is idle, and the rest behind its answer. */
  retire(): void {
    this.#isRetired = true
    for (const connection of this.#idle.splice(0)) this.discard(connection)
  }

  /** Closes every connection. */
  close(): void {
    this.#isRetired = true
    this.#idle.length = 0
    for (const connection of this.#all) connection.destroy()
    this.#all.clear()
  }

  #grown(): UndiciConnection | undefined {
    if (this.#all.size >= this.#options.connectionsPerUpstream) return undefined
    const connection = new UndiciConnection(this.#target, this.#options, this)
    this.#all.add(connection)
    return connection
  }

  #serveWaiting(): void {
    if (this.#waiting.size === 0) return
    const connection = this.#grown()
    if (connection) this.#serveNext(connection)
  }

  #serveNext(connection: UndiciConnection): boolean {
    for (const user of this.#waiting) {
      this.#waiting.delete(user)
      this.#give(connection, user)
      return true
    }
    return false
  }

  #give(connection: UndiciConnection, user: PoolUser): void {
    connection.lend(user)
    user.take(connection)
  }
}
