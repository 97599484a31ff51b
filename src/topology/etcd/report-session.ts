import type { Etcd3, Lease } from 'etcd3'
import type { Clock, Timer } from '../../clock.ts'
import { deadline, openClient } from './client.ts'
import type { EtcdConnection } from './connection.ts'
import { GATEWAYS, gatewaysRange } from './keys.ts'
import type { SessionEnd } from './session-loop.ts'

/** A change is told so long after it, in milliseconds, at most: others that it brings are told with it. */
const CHANGE_DELAY_MS = 200

export interface ReportSessionOptions {
  readonly connection: EtcdConnection
  readonly host: string
  readonly clock: Clock
  readonly gatewayId: string
  readonly intervalMs: number
  readonly ttlSeconds: number
  /** What to write; undefined: nothing yet. */
  readonly value: () => string | undefined
  /** Receives what the other gateways have written. */
  readonly onOthers: (reports: ReadonlyMap<string, Buffer>) => void
  /** The user may not do this. */
  readonly onForbidden: (what: 'write' | 'read', error: unknown) => void
}

/** One life of a gateway's report with one etcd host: a lease, the report under it, a look at the others' ones. */
export class ReportSession {
  readonly #options: ReportSessionOptions
  readonly #key: string
  readonly #ending = new AbortController()
  #client: Etcd3 | undefined
  #lease: Lease | undefined
  #startedAt: number | undefined
  #changed = false
  #wake = () => {}
  #resolve: (end: SessionEnd) => void = () => {}

  constructor(options: ReportSessionOptions) {
    this.#options = options
    this.#key = options.connection.prefix + GATEWAYS + options.gatewayId
  }

  /** Runs once, until something goes wrong or `end` is called. Never rejects. */
  run(): Promise<SessionEnd> {
    return new Promise((resolve) => {
      this.#resolve = resolve
      this.#live().catch((error) => this.end(error))
    })
  }

  /** There is news, to be told before the interval is over. */
  changed(): void {
    this.#changed = true
    this.#wake()
  }

  /** Takes the report back; without an answer it expires. */
  async revoke(): Promise<void> {
    await this.#lease?.revoke({ deadline: deadline(this.#options.connection) })
  }

  end(reason: unknown): void {
    if (this.#ending.signal.aborted) return
    this.#ending.abort()
    this.#wake()
    this.#lease?.release()
    this.#client?.close()
    const upMs = this.#startedAt === undefined ? 0 : this.#options.clock.now() - this.#startedAt
    this.#resolve({ reason, upMs })
  }

  async #live(): Promise<void> {
    const { connection, host, clock, intervalMs, ttlSeconds } = this.#options
    const { signal } = this.#ending
    const client = await openClient(connection, host, clock, signal)
    if (signal.aborted) return client.close()
    this.#client = client
    this.#lease = client.lease(ttlSeconds, { autoKeepAlive: false })
    const lease = await this.#lease.grant()
    this.#startedAt = clock.now()
    while (!signal.aborted) {
      await this.#write(client, lease)
      await this.#readOthers(client)
      const until = clock.now() + intervalMs
      while (!signal.aborted && (await this.#changeBefore(until))) await this.#write(client, lease)
      if (!signal.aborted) await this.#lease.keepaliveOnce({ deadline: deadline(connection) })
    }
  }

  async #write(client: Etcd3, lease: string): Promise<void> {
    const value = this.#options.value()
    if (value === undefined) return
    await this.#permitted('write', () => client.put(this.#key).value(value).lease(lease).exec())
  }

  async #readOthers(client: Etcd3): Promise<void> {
    const { connection, onOthers } = this.#options
    const range = gatewaysRange(connection.prefix)
    await this.#permitted('read', async () => {
      const { kvs } = await client.getAll().inRange(range).exec()
      const others = kvs.filter(({ key }) => key.toString() !== this.#key)
      const idOf = (key: Buffer) => key.subarray(range.start.length).toString()
      if (!this.#ending.signal.aborted) onOthers(new Map(others.map(({ key, value }) => [idOf(key), value])))
    })
  }

  async #permitted(what: 'write' | 'read', call: () => Promise<unknown>): Promise<void> {
    try {
      await call()
    } catch (error) {
      // By name, since etcd3 is not loaded for it.
      if (!(error instanceof Error) || error.constructor.name !== 'EtcdPermissionDeniedError') throw error
      this.#options.onForbidden(what, error)
    }
  }

  /** Waits for a change, and a little longer for those that follow; false once `until` has come without one. */
  async #changeBefore(until: number): Promise<boolean> {
    const { clock } = this.#options
    if (!this.#changed) await this.#sleep(until - clock.now())
    if (!this.#changed || this.#ending.signal.aborted) return false
    this.#wake = () => {}
    await this.#sleep(CHANGE_DELAY_MS * clock.random(), true)
    this.#changed = false
    return true
  }

  #sleep(milliseconds: number, deaf = false): Promise<void> {
    return new Promise((resolve) => {
      const timer: Timer = this.#options.clock.setTimeout(resolve, milliseconds)
      this.#wake = () => {
        if (deaf && !this.#ending.signal.aborted) return
        timer.cancel()
        resolve()
      }
    })
  }
}
