import type { Etcd3, IWatchResponse, Watcher } from 'etcd3'
import type { Clock, Timer } from '../../clock.ts'
import type { Change, Listing } from '../upstream-set.ts'
import { openClient } from './client.ts'
import type { EtcdConnection } from './connection.ts'
import { relativeKey, topologyRange } from './keys.ts'
import type { SessionEnd } from './session-loop.ts'

export interface WatchSessionOptions {
  readonly connection: EtcdConnection
  readonly host: string
  readonly clock: Clock
  /** Receives the snapshot that the watch starts after. */
  readonly onListing: (listing: Listing) => void
  /** The watch stands: from the snapshot on nothing is missed. */
  readonly onWatching: () => void
  /** Receives one whole batch of changes. */
  readonly onChanges: (changes: readonly Change[]) => void
}

/**
 * One life with one etcd host: a client, a snapshot at revision R, a watch from R + 1. It never resumes:
 * whatever goes wrong ends it, and the next session begins with a new snapshot. (etcd3's own resume moves
 * past events that it has not delivered, and neither survives nor reports a compaction.)
 */
export class WatchSession {
  readonly host: string
  readonly #options: WatchSessionOptions
  readonly #timers = new Set<Timer>()
  #client: Etcd3 | undefined
  #watcher: Watcher | undefined
  #batches = 0
  #watchingSince: number | undefined
  readonly #ending = new AbortController()
  #resolve: (end: SessionEnd) => void = () => {}

  constructor(options: WatchSessionOptions) {
    this.host = options.host
    this.#options = options
  }

  /** Runs once, until something goes wrong or `end` is called. Never rejects. */
  run(): Promise<SessionEnd> {
    return new Promise((resolve) => {
      this.#resolve = resolve
      this.#start().catch((error) => this.end(error))
    })
  }

  /** Everything in range, linearizable. Rejects within the request timeout. */
  async read(): Promise<Listing> {
    const { prefix } = this.#options.connection
    if (this.#client === undefined) throw new Error('the session has no client yet')
    const { header, kvs } = await this.#client.getAll().inRange(topologyRange(prefix)).exec()
    const entries = kvs.map(({ key, value, mod_revision }) => {
      return { key: relativeKey(key, prefix), value, revision: BigInt(mod_revision) }
    })
    return { clusterId: header.cluster_id, revision: BigInt(header.revision), entries }
  }

  /** Ends the session unless the watch delivers something soon: a read has found changes that it owes us. */
  expectBatch(): void {
    const batches = this.#batches
    this.#after(this.#options.connection.requestTimeoutMs, () => {
      if (batches === this.#batches) this.end(new Error('the watch is silent though keys changed'))
    })
  }

  end(reason: unknown): void {
    if (this.#over) return
    this.#ending.abort()
    for (const timer of this.#timers) timer.cancel()
    // Without cancelling it etcd3 would try for ever to open the watch again on the closed client.
    this.#watcher?.cancel().catch(() => {})
    this.#client?.close()
    const { clock } = this.#options
    this.#resolve({ reason, upMs: this.#watchingSince === undefined ? 0 : clock.now() - this.#watchingSince })
  }

  get #over(): boolean {
    return this.#ending.signal.aborted
  }

  async #start(): Promise<void> {
    const { connection, clock, onListing } = this.#options
    const client = await openClient(connection, this.host, clock, this.#ending.signal)
    if (this.#over) return client.close()
    this.#client = client
    const listing = await this.read()
    if (this.#over) return
    onListing(listing)
    this.#watch(client, listing.revision + 1n)
  }

  #watch(client: Etcd3, from: bigint): void {
    const { connection, clock, onWatching } = this.#options
    const watcher = client.watch().inRange(topologyRange(connection.prefix)).watcher()
    // As text: the builder's startRevision() goes through a double. The request is sent in a later tick.
    watcher.request.start_revision = String(from)
    this.#watcher = watcher
    const connecting = this.#after(connection.connectTimeoutMs, () => {
      this.end(new Error(`the watch was not created within ${connection.connectTimeoutMs} ms`))
    })
    watcher
      .on('connected', () => {
        if (this.#over) return
        connecting.cancel()
        this.#watchingSince = clock.now()
        onWatching()
      })
      .on('data', (response) => this.#take(response))
      .on('disconnected', (error) => this.end(error))
      .on('error', (error) => this.end(error))
      .on('end', () => this.end(new Error('etcd ended the watch')))
  }

  /** A whole batch; etcd never splits a transaction over two. Throwing here would lose it silently. */
  #take({ events }: IWatchResponse): void {
    if (this.#over || events.length === 0) return
    this.#batches += 1
    const { connection, onChanges } = this.#options
    try {
      onChanges(
        events.map(({ type, kv }) => ({
          key: relativeKey(kv.key, connection.prefix),
          value: type.toLowerCase() === 'delete' ? undefined : kv.value,
          revision: BigInt(kv.mod_revision),
        })),
      )
    } catch (error) {
      this.end(error)
    }
  }

  #after(milliseconds: number, callback: () => void): Timer {
    const timer = this.#options.clock.setTimeout(callback, milliseconds)
    this.#timers.add(timer)
    return timer
  }
}
