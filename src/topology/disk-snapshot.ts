import { randomUUID } from 'node:crypto'
import { open, readFile, rename, rm } from 'node:fs/promises'
import type { Timer } from '../clock.ts'
import { OptionsError } from '../errors.ts'
import { messageOf, show } from './fields.ts'
import { milliseconds } from './milliseconds.ts'
import { decodeSnapshot, encodeSnapshot, type Snapshot } from './snapshot-format.ts'
import type { SourceContext } from './topology.ts'
import type { SetContents } from './upstream-set.ts'

/** Changes are collected for so long before they are written, in milliseconds. */
const WRITE_DELAY_MS = 1000

/** Where the last topology is kept, for a start while etcd is away. */
export interface SnapshotFileOptions {
  /** Several gateways may share it; its folder must exist. */
  readonly path: string
  /** How old the last reading of etcd may be to be served, in milliseconds. Default: as old as it is. */
  readonly maxAgeMs?: number | undefined
}

/** Checks the option. Throws OptionsError. */
export function parseSnapshotFile(
  option: string | SnapshotFileOptions | undefined,
): SnapshotFileOptions | undefined {
  if (option === undefined) return undefined
  const { path, maxAgeMs } = typeof option === 'string' ? { path: option } : option
  if (typeof path !== 'string' || path === '') {
    throw new OptionsError(`snapshotFile: expected the path of a file, got ${show(path)}`)
  }
  if (maxAgeMs === undefined) return { path }
  return { path, maxAgeMs: milliseconds('snapshotFile.maxAgeMs', maxAgeMs, 0) }
}

/**
 * A copy on disk of what was last read from etcd. Whatever is wrong with the file is logged, once, and never stands
 * in the way: then there is no copy.
 */
export class DiskSnapshot {
  readonly #options: SnapshotFileOptions
  readonly #prefix: string
  readonly #context: SourceContext
  /** In the same folder, since a rename is atomic only within a file system; no other process writes to it. */
  readonly #temporary: string
  #contents: SetContents | undefined
  #delay: Timer | undefined
  #writing: Promise<void> = Promise.resolve()
  #problem: string | undefined

  constructor(options: SnapshotFileOptions, prefix: string, context: SourceContext) {
    this.#options = options
    this.#temporary = `${options.path}.${randomUUID()}.tmp`
    this.#prefix = prefix
    this.#context = context
  }

  get path(): string {
    return this.#options.path
  }

  /** What is wrong with the file. */
  get problem(): string | undefined {
    return this.#problem
  }

  /** Reads the file; undefined, and a log line, when it cannot be used. */
  async load(): Promise<Snapshot | undefined> {
    try {
      return await this.#read()
    } catch (error) {
      this.#tell('the topology snapshot cannot be used', error)
      return undefined
    }
  }

  /** Writes these contents soon, unless newer ones follow before that. */
  save(contents: SetContents): void {
    this.#contents = contents
    this.#delay ??= this.#context.clock.setTimeout(() => this.#writeSoon(), WRITE_DELAY_MS)
  }

  /** Writes what is still to be written. */
  async close(): Promise<void> {
    this.#delay?.cancel()
    this.#writeSoon()
    await this.#writing
  }

  #writeSoon(): void {
    const contents = this.#contents
    this.#delay = undefined
    this.#contents = undefined
    if (!contents) return
    this.#writing = this.#writing
      .then(() => this.#write(contents))
      .catch((error) => this.#tell('the topology snapshot cannot be written', error))
  }

  async #write(contents: SetContents): Promise<void> {
    // Another gateway may have been here with a later reading. One that cannot be used is in nobody's way.
    const present = await this.#read().catch(() => undefined)
    if (present && isNewer(present.contents, contents)) return
    try {
      const file = await open(this.#temporary, 'w', 0o600)
      try {
        // The wall clock: the reading is looked at by another process, perhaps after a reboot.
        await file.writeFile(encodeSnapshot({ prefix: this.#prefix, readAt: Date.now(), contents }))
        // Else a crash may leave the new name on an empty file.
        await file.sync()
      } finally {
        await file.close()
      }
      await rename(this.#temporary, this.path)
    } catch (error) {
      await rm(this.#temporary, { force: true }).catch(() => {})
      throw error
    }
    this.#problem = undefined
  }

  async #read(): Promise<Snapshot> {
    const snapshot = decodeSnapshot(await readFile(this.path, 'utf8'))
    const { prefix, readAt } = snapshot
    if (prefix !== this.#prefix) {
      throw new Error(`expected a snapshot of ${show(this.#prefix)}, got one of ${show(prefix)}`)
    }
    const { maxAgeMs = Number.POSITIVE_INFINITY } = this.#options
    const ageMs = Date.now() - readAt
    if (ageMs > maxAgeMs) throw new Error(`expected one of at most ${maxAgeMs} ms, got one of ${ageMs} ms`)
    return snapshot
  }

  #tell(what: string, error: unknown): void {
    const problem = `${what}: ${messageOf(error)}`
    if (problem === this.#problem) return
    this.#problem = problem
    this.#context.logger.warn({ path: this.path }, problem)
  }
}

function isNewer(one: SetContents, other: SetContents): boolean {
  return one.epoch > other.epoch || (one.epoch === other.epoch && one.revision > other.revision)
}
