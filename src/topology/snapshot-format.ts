import { createHash } from 'node:crypto'
import { isRecord, show } from './fields.ts'
import type { SetContents } from './upstream-set.ts'

/** What a snapshot file says. */
export interface Snapshot {
  /** The prefix in etcd that it was read from. */
  readonly prefix: string
  /** When that was, in milliseconds since 1970. */
  readonly readAt: number
  readonly contents: SetContents
}

const TITLE = 'consistent-hash-proxy topology snapshot 1 sha256 '

/** A line with the format's version and the SHA-256 of the rest; the rest is JSON, the values in it are base64. */
export function encodeSnapshot({ prefix, readAt, contents }: Snapshot): string {
  const { clusterId, epoch, revision, entries } = contents
  const body = JSON.stringify({
    ...{ prefix, readAt, clusterId, epoch },
    revision: revision.toString(),
    entries: entries.map(({ key, value, revision }) => [key, revision.toString(), value.toString('base64')]),
  })
  return `${TITLE}${sha256(body)}\n${body}`
}

/** Throws an Error that says what is wrong with the file. What stands in the values is not looked at. */
export function decodeSnapshot(text: string): Snapshot {
  const end = text.indexOf('\n')
  const body = text.slice(end + 1)
  if (!text.startsWith(TITLE)) throw new Error(`expected a file that begins "${TITLE}…", got ${show(text)}`)
  if (text.slice(TITLE.length, end) !== sha256(body)) {
    throw new Error('expected the content that its checksum was made of, got another: cut short or damaged')
  }
  const parsed: unknown = JSON.parse(body)
  if (!isRecord(parsed)) throw new Error(`expected an object, got ${show(parsed)}`)
  const { prefix, readAt, clusterId, epoch, revision, entries } = parsed
  if (!isText(prefix) || !isText(clusterId) || !isCount(readAt) || !isCount(epoch) || !isList(entries)) {
    throw new Error(`expected prefix, readAt, clusterId, epoch and entries, got ${show(parsed)}`)
  }
  const contents = { clusterId, epoch, revision: wholeNumber(revision), entries: entries.map(entryOf) }
  return { prefix, readAt, contents }
}

function entryOf(entry: unknown): SetContents['entries'][number] {
  const [key, revision, value] = isList(entry) ? entry : []
  if (!isText(key) || !isText(value)) throw new Error(`expected a key and a value, got ${show(entry)}`)
  return { key, revision: wholeNumber(revision), value: Buffer.from(value, 'base64') }
}

function wholeNumber(value: unknown): bigint {
  if (isText(value) && /^\d{1,19}$/.test(value)) return BigInt(value)
  throw new Error(`expected a revision in decimal, got ${show(value)}`)
}

const isText = (value: unknown): value is string => typeof value === 'string'
const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0
const isList = (value: unknown): value is readonly unknown[] => Array.isArray(value)
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')
