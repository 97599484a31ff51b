import { DisappearanceGuard, type DisappearanceSettings } from '../disappearance-guard.ts'
import { DiskSnapshot, type SnapshotFileOptions } from '../disk-snapshot.ts'
import { Pacer } from '../pacer.ts'
import type { DiskCopy, SourceContext, Topology } from '../topology.ts'
import type { UpstreamSet } from '../upstream-set.ts'

export interface PublisherSettings {
  readonly prefix: string
  readonly disappearance: DisappearanceSettings
  readonly snapshotFile: SnapshotFileOptions | undefined
}

/**
 * Stands between what is known of etcd and whoever serves by it: builds topologies at a pace that leaves time for
 * requests, doubts mass disappearances, and keeps a copy on disk for a start without etcd.
 */
export class Publisher {
  readonly #set: UpstreamSet
  readonly #onTopology: (topology: Topology) => void
  readonly #context: SourceContext
  readonly #guard: DisappearanceGuard
  readonly #pacer: Pacer
  readonly #disk: DiskSnapshot | undefined
  /** When the set was read that came from disk; undefined once etcd's own is there. */
  #restoredFrom: number | undefined
  #served: Topology | undefined

  constructor(
    set: UpstreamSet,
    settings: PublisherSettings,
    onTopology: (topology: Topology) => void,
    context: SourceContext,
  ) {
    const { prefix, disappearance, snapshotFile } = settings
    this.#set = set
    this.#onTopology = onTopology
    this.#context = context
    this.#guard = new DisappearanceGuard(disappearance, context.clock, (topology) => this.#serve(topology))
    this.#pacer = new Pacer(() => this.#publish(), context.clock)
    this.#disk = snapshotFile && new DiskSnapshot(snapshotFile, prefix, context)
  }

  /** The copy on disk, while that is what is served. */
  get diskCopy(): DiskCopy | undefined {
    if (!this.#disk || this.#restoredFrom === undefined || !this.#served) return undefined
    return { path: this.#disk.path, ageMs: Math.max(0, Date.now() - this.#restoredFrom) }
  }

  /** Why there is no copy on disk, while nothing is served. */
  get diskProblem(): string | undefined {
    return this.#served ? undefined : this.#disk?.problem
  }

  /** Fills the set from disk, if it can be; nothing is served of it yet. */
  async restore(): Promise<void> {
    const snapshot = await this.#disk?.load()
    if (!snapshot) return
    this.#set.restore(snapshot.contents)
    this.#restoredFrom = snapshot.readAt
  }

  /** Serves what came from disk, as long as etcd has said nothing. */
  serveFromDisk(): void {
    if (this.#restoredFrom === undefined || this.#served) return
    this.#publish()
    const { revision } = this.#set
    const fields = { ...this.diskCopy, revision: revision.toString() }
    this.#context.logger.warn(fields, 'etcd cannot be read: the topology is the one that is on disk')
  }

  /** The set is what etcd says now, be it what it was before or not. */
  read(changed: boolean): void {
    const first = !this.#served || this.#restoredFrom !== undefined
    this.#restoredFrom = undefined
    if (changed || first) this.#pacer.ask()
    else this.#save()
  }

  /** The set changed. */
  changed(): void {
    this.#pacer.ask()
  }

  /** Serves now what the set says. */
  flush(): void {
    this.#pacer.flush()
  }

  async close(): Promise<void> {
    this.#pacer.close()
    this.#guard.close()
    await this.#disk?.close()
  }

  #publish(): void {
    const topology = this.#set.topology()
    const stale = this.#restoredFrom !== undefined
    this.#serve(this.#guard.take(stale ? { ...topology, degraded: true } : topology))
  }

  #serve(topology: Topology): void {
    this.#served = topology
    this.#onTopology(topology)
    this.#save()
  }

  /** The last good set: neither what is doubted, nor nothing. */
  #save(): void {
    if (!this.#disk || this.#restoredFrom !== undefined) return
    if (!this.#served || this.#served.held || this.#served.upstreams.length === 0) return
    const contents = this.#set.contents()
    if (contents) this.#disk.save(contents)
  }
}
