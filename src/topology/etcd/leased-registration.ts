import type { Clock } from '../../clock.ts'
import { ClosedError, TopologySourceError } from '../../errors.ts'
import type { Logger } from '../../logger.ts'
import { FeedStatus } from '../feed-status.ts'
import type { SourceStatus, Upstream } from '../topology.ts'
import type { EtcdConnection } from './connection.ts'
import { explain } from './explain.ts'
import { UPSTREAMS } from './keys.ts'
import { LeaseSession } from './lease-session.ts'
import { type SessionEnd, SessionLoop } from './session-loop.ts'

/** The options of `registerUpstream`, checked and complete. */
export interface RegistrationSettings {
  readonly connection: EtcdConnection
  readonly upstream: Upstream
  readonly ttlSeconds: number
  readonly drainMs: number
  readonly logger: Logger
  readonly clock: Clock
}

/** A registration at work. */
export interface Registration {
  /** `live`: etcd has it. `lost`: it had it, and gets it again once etcd is reachable. */
  readonly status: SourceStatus
  /** Resolves when etcd has the registration for the first time; rejects with ClosedError if closed before. */
  ready(): Promise<void>
  /**
   * Registers as draining: no keys any more, work goes on. Resolves when etcd has it. Rejects with
   * TopologySourceError when it cannot be written now; it will be, by the next registration.
   */
  drain(): Promise<void>
  /**
   * Drains, waits `drainMs`, revokes the lease. Never rejects: without etcd the lease expires. Idempotent.
   */
  close(): Promise<void>
}

/** A registration under a lease, over many sessions with etcd. */
export class LeasedRegistration implements Registration {
  readonly #settings: RegistrationSettings
  readonly #key: string
  readonly #status: FeedStatus
  readonly #loop: SessionLoop
  readonly #ready: Promise<void>
  /** Leases that the key may be under through us: one whose write got no answer counts too. */
  readonly #leases = new Set<string>()
  #settle: (error?: Error) => void = () => {}
  #upstream: Upstream
  #session: LeaseSession | undefined
  #host = ''
  #keptAt = 0
  #closing: Promise<void> | undefined

  constructor(settings: RegistrationSettings) {
    this.#settings = settings
    this.#upstream = settings.upstream
    this.#key = `${settings.connection.prefix}${UPSTREAMS}${settings.upstream.id}`
    this.#ready = new Promise((resolve, reject) => {
      this.#settle = (error) => (error ? reject(error) : resolve())
    })
    // Whoever does not wait for it shall not crash.
    this.#ready.catch(() => {})
    this.#status = new FeedStatus((status) => this.#log(status))
    this.#loop = new SessionLoop({
      connection: settings.connection,
      clock: settings.clock,
      session: (host) => this.#live(host),
      onFailure: (message) => this.#status.failed(message),
    })
  }

  get status(): SourceStatus {
    const { current } = this.#status
    const { clock, ttlSeconds } = this.#settings
    // By our own clock: a process that was stopped for a while must not believe in a lease that has expired.
    const expired = current.state === 'live' && clock.now() - this.#keptAt > ttlSeconds * 1000
    return expired ? { state: 'lost', error: `no keepalive for over ${ttlSeconds} s` } : current
  }

  ready(): Promise<void> {
    return this.#ready
  }

  async drain(): Promise<void> {
    this.#upstream = { ...this.#upstream, state: 'draining' }
    const session = this.#session
    let written = false
    try {
      written = (await session?.rewrite()) ?? false
    } catch (error) {
      session?.end(error)
      throw new TopologySourceError(explain(error, this.#settings.connection, this.#host), { cause: error })
    }
    if (!written) {
      throw new TopologySourceError(`${this.#key} is not registered by us now (${this.status.state})`)
    }
  }

  close(): Promise<void> {
    this.#closing ??= this.#leave()
    return this.#closing
  }

  async #leave(): Promise<void> {
    const { clock, drainMs } = this.#settings
    await this.#attempt(async () => {
      await this.drain()
      await new Promise<void>((resolve) => clock.setTimeout(resolve, drainMs, { keepProcessAlive: true }))
    })
    // No session may begin after this one: it would register again what is revoked here.
    const ended = this.#loop.close()
    await this.#attempt(async () => this.#session?.revoke())
    this.#status.closed()
    this.#settle(new ClosedError('the registration'))
    this.#session?.end(undefined)
    await ended
  }

  /** A step of leaving that may fail: then the lease expires. */
  async #attempt(step: () => Promise<void>): Promise<void> {
    try {
      await step()
    } catch (error) {
      this.#settings.logger.debug({ err: error, key: this.#key }, 'a step of leaving etcd failed')
    }
  }

  async #live(host: string): Promise<SessionEnd> {
    const { connection, clock, ttlSeconds } = this.#settings
    this.#host = host
    this.#session = new LeaseSession({
      connection,
      host,
      clock,
      key: this.#key,
      ttlSeconds,
      mayTake: (lease) => this.#mayTake(lease),
      value: () => JSON.stringify(this.#upstream),
      onLease: (lease) => this.#leases.add(lease),
      onWritten: (lease) => {
        this.#leases.clear()
        this.#leases.add(lease)
        this.#status.live()
        this.#settle()
      },
      onKept: (sentAt) => {
        this.#keptAt = sentAt
      },
    })
    const end = await this.#session.run()
    this.#session = undefined
    return end
  }

  /**
   * The first time whoever has the key is a predecessor that died. Later, a key under a lease which is not
   * ours is a successor's, registered while we were away.
   */
  #mayTake(lease: string | undefined): boolean {
    const first = this.#status.current.state === 'connecting'
    return first || lease === undefined || this.#leases.has(lease)
  }

  #log(status: SourceStatus): void {
    const fields = { key: this.#key, ...status }
    if ('error' in status) this.#settings.logger.warn(fields, 'not registered in etcd')
    else this.#settings.logger.info(fields, 'registration in etcd')
  }
}
