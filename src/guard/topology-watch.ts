import type { Clock } from '../clock.ts'
import { ClosedError } from '../errors.ts'
import type { Logger } from '../logger.ts'
import type { HashRing } from '../ring/hash-ring.ts'
import { xxh64Ready } from '../ring/xxh64.ts'
import type { Topology, TopologyFeed, TopologySource } from '../topology/topology.ts'
import { catchUp } from './catch-up.ts'
import type { GuardView } from './judge.ts'

/** Follows a topology for a guard: owns the feed, and keeps the view of the latest topology. */
export class TopologyWatch {
  /** Resolves with the first topology; rejects when the source cannot be opened or the watch is closed before. */
  readonly ready: Promise<void>
  /** Reads the source again in the background; may be asked for by every request. */
  readonly catchUp: () => void
  readonly #logger: Logger
  readonly #opening: Promise<TopologyFeed | undefined>
  #ring: HashRing
  #view: GuardView | undefined
  #closed = false
  #arrived = () => {}
  #failed = (_error: unknown) => {}

  /** `ring` has no members yet, and the settings of the gateways. */
  constructor(source: TopologySource, ring: HashRing, clock: Clock, logger: Logger) {
    this.#ring = ring
    this.#logger = logger
    this.ready = new Promise((resolve, reject) => {
      this.#arrived = resolve
      this.#failed = reject
    })
    // Whoever asks for `ready` gets the error; that nobody asks must not end the process.
    this.ready.catch(() => {})
    this.#opening = this.#open(source, clock)
    this.catchUp = catchUp(
      async () => (await this.#opening)?.refresh(),
      clock,
      (err) => logger.debug({ err }, 'ownership guard: the topology could not be read again'),
    )
  }

  /** The latest topology, or undefined before the first one and after `close`. */
  get view(): GuardView | undefined {
    return this.#view
  }

  /** Closes the feed. Idempotent. */
  async close(): Promise<void> {
    this.#closed = true
    this.#view = undefined
    this.#failed(new ClosedError('The ownership guard'))
    const feed = await this.#opening
    await feed?.close()
  }

  async #open(source: TopologySource, clock: Clock): Promise<TopologyFeed | undefined> {
    // The first ring of a large cluster takes seconds without the WebAssembly, and milliseconds with it.
    await xxh64Ready()
    if (this.#closed) return undefined
    const observer = {
      onTopology: (topology: Topology) => this.#update(topology),
      onStatus: (status: object) =>
        this.#logger.info(status, 'ownership guard: the state of the topology source'),
      onRefused: (entry: string, err: Error) =>
        this.#logger.warn({ entry, err }, 'ownership guard: entry refused'),
    }
    try {
      return source.open(observer, { clock, logger: this.#logger })
    } catch (err) {
      this.#logger.error(
        { err },
        'ownership guard: the topology source cannot be opened, everything is served',
      )
      this.#failed(err)
      return undefined
    }
  }

  #update({ id, epoch, revision, upstreams }: Topology): void {
    if (this.#closed) return
    try {
      this.#ring = this.#ring.with(upstreams.filter(({ state }) => state === 'active'))
    } catch (err) {
      this.#logger.error(
        { err, revision: revision.toString() },
        'ownership guard: the topology makes no ring',
      )
      return
    }
    this.#view = { stamp: { id, epoch, revision, digest: this.#ring.digest }, ring: this.#ring }
    this.#arrived()
  }
}
