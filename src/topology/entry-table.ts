import { RefusedEntryError } from '../errors.ts'
import { messageOf } from './fields.ts'

/** A key's value and what came of it. */
export interface Entry<T> {
  readonly value: Buffer
  /** The revision of the store that wrote it last. */
  readonly modRevision: bigint
  /** What the value says, or the last good one said when this one is refused. */
  readonly good: T | undefined
  /** Why the value is refused. */
  readonly refusal: RefusedEntryError | undefined
}

/** Keys under one folder with their decoded values. Decodes a value once, however often it is read again. */
export class EntryTable<T> {
  readonly #decode: (key: string, value: Buffer) => T
  readonly #onRefused: (key: string, error: RefusedEntryError) => void
  readonly #entries = new Map<string, Entry<T>>()

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
  inOrder(): [string, Entry<T>][] {
    return [...this.#entries].sort(([left], [right]) => (left < right ? -1 : 1))
  }

  get degraded(): boolean {
    return [...this.#entries.values()].some(({ refusal }) => refusal !== undefined)
  }

  keys(): Iterable<string> {
    return this.#entries.keys()
  }

  /** Whether anything changed, be it only the revision. */
  put(key: string, value: Buffer, modRevision: bigint): boolean {
    const before = this.#entries.get(key)
    if (before?.value.equals(value)) {
      this.#entries.set(key, { ...before, modRevision })
      return before.modRevision !== modRevision
    }
    this.#entries.set(key, { value, modRevision, ...this.#read(key, value, before?.good) })
    return true
  }

  delete(key: string): boolean {
    return this.#entries.delete(key)
  }

  #read(key: string, value: Buffer, lastGood: T | undefined): Pick<Entry<T>, 'good' | 'refusal'> {
    try {
      return { good: this.#decode(key, value), refusal: undefined }
    } catch (error) {
      const refusal = error instanceof RefusedEntryError ? error : undecodable(error)
      this.#onRefused(key, refusal)
      return { good: lastGood, refusal }
    }
  }
}

/** A decoder of the user's own may throw whatever it likes. */
const undecodable = (error: unknown) =>
  new RefusedEntryError('field', `value: expected one that decodes, got ${messageOf(error)}`)
