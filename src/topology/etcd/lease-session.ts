import type { Etcd3, Lease } from 'etcd3'
import type { Clock } from '../../clock.ts'
import { deadline, openClient } from './client.ts'
import type { EtcdConnection } from './connection.ts'
import type { SessionEnd } from './session-loop.ts'

export interface LeaseSessionOptions {
  readonly connection: EtcdConnection
  readonly host: string
  readonly clock: Clock
  readonly key: string
  readonly ttlSeconds: number
  /** Whether the key's present lease may be replaced by ours (`0`: it has none; undefined: no such key). */
  readonly mayTake: (lease: string | undefined) => boolean
  /** What to write; asked at each write. */
  readonly value: () => string
  /** A lease of ours that the key is about to be under. */
  readonly onLease: (lease: string) => void
  /** The key stands under this lease. */
  readonly onWritten: (lease: string) => void
  /** The lease was kept alive by what we sent at this moment of the clock. */
  readonly onKept: (sentAt: number) => void
}

/**
 * One life of a registration with one etcd host: a lease, the key under it, keepalives. Whatever goes wrong
 * ends it; the next session takes a lease of its own, and the old one, without a key by then, expires.
 */
export class LeaseSession {
  readonly #options: LeaseSessionOptions
  readonly #ending = new AbortController()
  #client: Etcd3 | undefined
  #lease: Lease | undefined
  #leaseId: string | undefined
  #writtenAt: number | undefined
  #wake = () => {}
  #resolve: (end: SessionEnd) => void = () => {}

  constructor(options: LeaseSessionOptions) {
    this.#options = options
  }

  /** Runs once, until something goes wrong or `end` is called. Never rejects. */
  run(): Promise<SessionEnd> {
    return new Promise((resolve) => {
      this.#resolve = resolve
      this.#live().catch((error) => this.end(error))
    })
  }

  /** Writes the value anew if the key is still under our lease; says whether it was. */
  async rewrite(): Promise<boolean> {
    if (this.#client === undefined || this.#leaseId === undefined) return false
    const { key, value } = this.#options
    const { succeeded } = await this.#client
      .if(key, 'Lease', '==', this.#leaseId)
      .then(this.#client.put(key).value(value()).lease(this.#leaseId))
      .commit()
    return succeeded
  }

  /** Takes back the lease, and with it only what is still under it: a successor's key stays. */
  async revoke(): Promise<void> {
    await this.#lease?.revoke()
  }

  end(reason: unknown): void {
    if (this.#ending.signal.aborted) return
    this.#ending.abort()
    this.#wake()
    this.#lease?.release()
    this.#client?.close()
    const upMs = this.#writtenAt === undefined ? 0 : this.#options.clock.now() - this.#writtenAt
    this.#resolve({ reason, upMs })
  }

  async #live(): Promise<void> {
    const { connection, host, clock, ttlSeconds, onWritten, onKept } = this.#options
    const client = await openClient(connection, host, clock, this.#ending.signal)
    if (this.#ending.signal.aborted) return client.close()
    this.#client = client
    const lease = await this.#take(client)
    this.#writtenAt = clock.now()
    onWritten(await lease.grant())
    for (;;) {
      // A third, as etcd's own client does: one may be lost.
      await this.#pause((ttlSeconds * 1000) / 3)
      if (this.#ending.signal.aborted) return
      const sentAt = clock.now()
      await lease.keepaliveOnce({ deadline: deadline(connection) })
      onKept(sentAt)
    }
  }

  /** Writes the key under a new lease, unless its holder may not be replaced or changes while we look. */
  async #take(client: Etcd3): Promise<Lease> {
    const { key, value, ttlSeconds, clock, mayTake, onLease, onKept } = this.#options
    const [present] = (await client.get(key).exec()).kvs
    if (!mayTake(present?.lease)) {
      throw new Error(`has ${key} under another lease (${present?.lease}): a successor registered`)
    }
    const sentAt = clock.now()
    const lease = client.lease(ttlSeconds, { autoKeepAlive: false })
    this.#lease = lease
    this.#leaseId = await lease.grant()
    onKept(sentAt)
    onLease(this.#leaseId)
    const { succeeded } = await client
      .if(key, 'Mod', '==', present?.mod_revision ?? '0')
      .then(client.put(key).value(value()).lease(this.#leaseId))
      .commit()
    if (!succeeded) throw new Error(`had ${key} changed by somebody else while we registered`)
    return lease
  }

  #pause(milliseconds: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.#options.clock.setTimeout(resolve, milliseconds)
      this.#wake = () => {
        timer.cancel()
        resolve()
      }
    })
  }
}
