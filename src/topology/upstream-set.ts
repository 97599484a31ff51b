import { RefusedEntryError } from '../errors.ts'
import { sortedById, topologyId } from './content.ts'
import { decodeOverride, type Override } from './decode.ts'
import { EntryTable } from './entry-table.ts'
import { show } from './fields.ts'
import type { Topology, Upstream } from './topology.ts'

/** One change of a key; `key` is relative to the prefix and has one character for each byte. */
export interface Change {
  readonly key: string
  /** The revision of the store that made the change. */
  readonly revision: bigint
  /** Undefined: the key was deleted. */
  readonly value: Buffer | undefined
}

/** Everything below the prefix at one revision of the store. */
export interface Listing {
  readonly clusterId: string
  readonly revision: bigint
  readonly entries: readonly (Change & { readonly value: Buffer })[]
}

/** What a set knows, as it stands in a snapshot on disk: the last good values as they came. */
export interface SetContents extends Listing {
  readonly epoch: number
}

export interface UpstreamSetOptions {
  /** Part of the topology's id. */
  readonly prefix: string
  /** Reads the value of `upstreams/<name>`; what it throws refuses that value. */
  readonly decode: (value: Buffer, name: string) => Upstream
  /** One value was refused; `key` is relative to the prefix. */
  readonly onRefused: (key: string, error: RefusedEntryError) => void
}

/**
 * Folds listings and batches of changes into topologies. Pure: the same folds in any mixture give what one
 * fresh listing at the same revision gives (but for last good values, which a listing cannot know).
 * Keys: `upstreams/<name>` are registrations, `overrides/<id>` are merged over them, others are ignored.
 */
export class UpstreamSet {
  readonly #options: UpstreamSetOptions
  readonly #registrations: EntryTable<Upstream>
  readonly #overrides: EntryTable<Override>
  /** Entries told as duplicates: key to value, so that another value is told again. */
  readonly #duplicates = new Map<string, Buffer | undefined>()
  #clusterId: string | undefined
  #epoch = 0
  #revision = 0n
  /** The revision of the last change that meant anything: other writers to the store do not move it. */
  #changedAt = 0n

  constructor(options: UpstreamSetOptions) {
    this.#options = options
    const { decode, onRefused } = options
    this.#registrations = new EntryTable(
      (key, value) => decode(value, textOf(key)),
      (key, error) => onRefused(`upstreams/${shortened(textOf(key))}`, error),
    )
    this.#overrides = new EntryTable(
      (_key, value) => decodeOverride(value),
      (key, error) => onRefused(`overrides/${shortened(textOf(key))}`, error),
    )
  }

  /** The revision that this set is at. */
  get revision(): bigint {
    return this.#revision
  }

  /**
   * Takes a linearizable listing; `knownRevision` is our revision from before it was asked for. Etcd promises
   * that such a read sees everything known when it began: a listing below that comes from a store whose
   * revisions went back (wiped, restored), which is a new epoch, and one between that and our revision now
   * was merely overtaken by the watch and is dropped. Returns whether anything changed.
   */
  list(listing: Listing, knownRevision: bigint): boolean {
    const wentBack = listing.revision < knownRevision
    if (!wentBack && listing.revision < this.#revision) return false
    let changed = wentBack || this.#clusterId !== listing.clusterId
    if (wentBack) this.#epoch += 1
    this.#clusterId = listing.clusterId
    this.#revision = listing.revision

    const present = new Set(listing.entries.map(({ key }) => key))
    const absent = this.#keys().filter((key) => !present.has(key))
    for (const key of absent)
      changed = this.#fold({ key, revision: listing.revision, value: undefined }) || changed
    for (const entry of listing.entries) changed = this.#fold(entry) || changed
    if (changed) this.#changedAt = this.#lastChange(listing, wentBack ? 0n : this.#changedAt)
    return changed
  }

  /** Takes the changes of one batch, all or none. Returns whether any of them was new. */
  apply(changes: readonly Change[]): boolean {
    const news = changes.filter(({ revision }) => revision > this.#revision)
    let changed = false
    for (const change of news) {
      changed = this.#fold(change) || changed
      if (change.revision > this.#revision) this.#revision = change.revision
    }
    if (changed) this.#changedAt = this.#revision
    return changed
  }

  /** Takes what an earlier process knew, into a set that knows nothing yet. */
  restore({ epoch, ...listing }: SetContents): void {
    this.list(listing, 0n)
    this.#epoch = epoch
  }

  /** What `restore` takes; undefined before the first listing. */
  contents(): SetContents | undefined {
    if (this.#clusterId === undefined) return undefined
    const folders = { upstreams: this.#registrations, overrides: this.#overrides }
    const entries = Object.entries(folders).flatMap(([folder, table]) =>
      [...table.inOrder()].flatMap(([name, { value, modRevision }]) => {
        return value ? [{ key: `${folder}/${name}`, value, revision: modRevision }] : []
      }),
    )
    return { clusterId: this.#clusterId, epoch: this.#epoch, revision: this.#revision, entries }
  }

  /** The topology at this moment. */
  topology(): Topology {
    const found = new Map<string, Upstream>()
    let degraded = this.#registrations.degraded || this.#overrides.degraded
    for (const [key, { good, value }] of this.#registrations.inOrder()) {
      if (good === undefined) continue
      if (found.has(good.id)) {
        degraded = true
        this.#tellDuplicate(key, value, good.id)
      } else {
        const override = this.#overrides.get(Buffer.from(good.id).toString('latin1'))?.good
        found.set(good.id, override ? { ...good, ...override } : good)
      }
    }
    return {
      id: topologyId(this.#clusterId ?? '', this.#options.prefix),
      epoch: this.#epoch,
      revision: this.#changedAt,
      upstreams: sortedById(found.values()),
      degraded,
    }
  }

  /**
   * When a listing that brought a change was last changed: by its youngest entry, so that gateways of whatever age say
   * the same of the same set, or else by a deletion, of which nothing is known but that it happened by now.
   */
  #lastChange({ entries, revision }: Listing, before: bigint): bigint {
    let youngest = 0n
    for (const { key, revision: writtenAt } of entries) {
      if (this.#tableOf(folderOf(key)) && writtenAt > youngest) youngest = writtenAt
    }
    return youngest > before ? youngest : revision
  }

  #keys(): string[] {
    const registrations = [...this.#registrations.keys()].map((key) => `upstreams/${key}`)
    return registrations.concat([...this.#overrides.keys()].map((key) => `overrides/${key}`))
  }

  /** Whether the change meant anything. */
  #fold({ key, value, revision }: Change): boolean {
    const folder = folderOf(key)
    const name = key.slice(folder.length + 1)
    const table = this.#tableOf(folder)
    if (table === undefined || name === '') return false
    if (value !== undefined) return table.put(name, value, revision)
    if (table === this.#registrations) this.#duplicates.delete(name)
    return table.delete(name)
  }

  #tableOf(folder: string): EntryTable<Upstream> | EntryTable<Override> | undefined {
    if (folder === 'upstreams') return this.#registrations
    return folder === 'overrides' ? this.#overrides : undefined
  }

  #tellDuplicate(key: string, value: Buffer | undefined, id: string): void {
    if (this.#duplicates.get(key) === value) return
    this.#duplicates.set(key, value)
    const message = `id: expected an id of its own, got ${show(id)}, which a smaller key has`
    this.#options.onRefused(
      `upstreams/${shortened(textOf(key))}`,
      new RefusedEntryError('duplicate', message),
    )
  }
}

const folderOf = (key: string) => key.slice(0, Math.max(0, key.indexOf('/')))
const textOf = (key: string) => Buffer.from(key, 'latin1').toString()
/** For logs: a key may be as long as a value. */
const shortened = (name: string) => (name.length > 256 ? `${name.slice(0, 255)}…` : name)
