import { createHash } from 'node:crypto'
import { RefusedEntryError } from '../errors.ts'
import { messageOf } from './fields.ts'

/** Longest value of one entry, in bytes: an upstream is a few hundred, and every gateway keeps all of them. */
const LONGEST_VALUE = 64 * 1024

/** A key with what its last good value says. */
export interface Entry<T> {
  /** The last good value; undefined when there was none. */
  readonly value: Buffer | undefined
  readonly good: T | undefined
  /** The revision of the store that wrote the key last. */
  readonly modRevision: bigint
  /** SHA-256 of the present value when that is refused: bad values may be many and large, and are of no use. */
  readonly refused: Buffer | undefined
}

/** Keys under one folder with their decoded values. Decodes a value once, however often it is read again. */
export class EntryTable<T> {
  readonly #decode: (key: string, value: Buffer) => T
  readonly #onRefused: (key: string, error: RefusedEntryError) => void
  readonly #entries = new Map<string, Entry<T>>()
  /** The keys in order; undefined when they have changed since. */
  #order: readonly string[] | undefined

  constructor(
    decode: (key: string, value: Buffer) => T,
    onRefused: (key: string, error: RefusedEntryError) => void,
  ) {
    this.#decode = decode
    this.#onRefused = onRefused
  }

  get(key: string): Entry<T> | undefined {
    return this.#entries.get(key)
  }

  /** In the order of the keys' bytes: a key is a string of one character for each byte. */
  *inOrder(): Generator<[string, Entry<T>]> {
    this.#order ??= [...this.#entries.keys()].sort()
    for (const key of this.#order) {
      const entry = this.#entries.get(key)
      if (entry) yield [key, entry]
    }
  }

  get degraded(): boolean {
    return [...this.#entries.values()].some(({ refused }) => refused !== undefined)
  }

  keys(): Iterable<string> {
    return this.#entries.keys()
  }

  /** Whether anything changed, be it only the revision. */
  put(key: string, value: Buffer, modRevision: bigint): boolean {
    const before = this.#entries.get(key)
    if (before && isValueOf(before, value)) {
      this.#entries.set(key, { ...before, modRevision })
      return before.modRevision !== modRevision
    }
    if (!before) this.#order = undefined
    this.#entries.set(key, { ...this.#read(key, value, before), modRevision })
    return true
  }

  delete(key: string): boolean {
    this.#order = undefined
    return this.#entries.delete(key)
  }

  #read(key: string, value: Buffer, before: Entry<T> | undefined): Omit<Entry<T>, 'modRevision'> {
    try {
      if (value.length > LONGEST_VALUE) throw tooLong(value.length)
      // A copy: what gRPC hands out is a piece of its whole message, which would be kept with it.
      return { value: Buffer.from(value), good: this.#decode(key, value), refused: undefined }
    } catch (error) {
      this.#onRefused(key, error instanceof RefusedEntryError ? error : undecodable(error))
      return { value: before?.value, good: before?.good, refused: fingerprint(value) }
    }
  }
}

function isValueOf({ value, refused }: Entry<unknown>, other: Buffer): boolean {
  return refused ? refused.equals(fingerprint(other)) : value?.equals(other) === true
}

const fingerprint = (value: Buffer) => createHash('sha256').update(value).digest()

const tooLong = (length: number) =>
  new RefusedEntryError('limit', `value: expected at most ${LONGEST_VALUE} bytes, got ${length}`)

/** A decoder of the user's own may throw whatever it likes. */
const undecodable = (error: unknown) =>
  new RefusedEntryError('field', `value: expected one that decodes, got ${messageOf(error).slice(0, 200)}`)
