/**
 * What gateway and upstream tell each other about the topology, as HTTP headers. They are the library's own
 * (no RFC); a client's values never pass the gateway, and an upstream's never leave it.
 */
export const topologyHeader = {
  /** Which topology the sender has: a `TopologyStamp`. */
  topology: 'x-topology',
  /** Id of the first owner of the key, in the gateway's ring. */
  ringOwner: 'x-ring-owner',
  /** Position of the key on the ring: 16 hex digits. */
  keyHash: 'x-key-hash',
  /** 1 for the first attempt at a request. */
  attempt: 'x-attempt',
} as const

/** The names of all of them, in lower case, to strip them by. */
export const topologyHeaderNames: ReadonlySet<string> = new Set(Object.values(topologyHeader))

/** One topology in short: comparable when `id` and `epoch` are equal; then a higher revision is newer. */
export interface TopologyStamp {
  readonly id: string
  readonly epoch: number
  readonly revision: bigint
  /** `HashRing.digest`. */
  readonly digest: string
}

/** A header's value as `node:http` hands it over. */
export type HeaderValue = string | readonly string[] | undefined

/** Longest value that is looked at: ids are host names and the like, so what is longer is not ours. */
const MAX_LENGTH = 4_096

const STAMP = /^id=([^;]+);epoch=(0|[1-9]\d{0,14});revision=(0|[1-9]\d{0,18});digest=([0-9a-f]{16})$/

/** `id=shop;epoch=0;revision=42;digest=0123456789abcdef`. */
export function encodeTopologyStamp({ id, epoch, revision, digest }: TopologyStamp): string {
  return `id=${encodeId(id)};epoch=${epoch};revision=${revision};digest=${digest}`
}

/** The stamp, or undefined for anything that `encodeTopologyStamp` does not write. */
export function decodeTopologyStamp(value: HeaderValue): TopologyStamp | undefined {
  const [, encodedId, epoch, revision, digest] = STAMP.exec(bounded(value)) ?? []
  const id = decodeId(encodedId)
  if (id === undefined || epoch === undefined || revision === undefined || digest === undefined)
    return undefined
  return { id, epoch: Number(epoch), revision: BigInt(revision), digest }
}

/** The id with what a header cannot hold percent-encoded; `10.0.0.1:8080` stays as it is. */
export function encodeRingOwner(id: string): string {
  return encodeId(id)
}

/** The id, or undefined for anything that `encodeRingOwner` does not write. */
export function decodeRingOwner(value: HeaderValue): string | undefined {
  return decodeId(bounded(value))
}

/** The position of a key as 16 hex digits. */
export function encodeKeyHash(position: bigint): string {
  return position.toString(16).padStart(16, '0')
}

/** The position, or undefined for anything but 16 lower-case hex digits. */
export function decodeKeyHash(value: HeaderValue): bigint | undefined {
  const digits = bounded(value)
  return /^[0-9a-f]{16}$/.test(digits) ? BigInt(`0x${digits}`) : undefined
}

/** The number of an attempt, from 1. */
export function encodeAttempt(attempt: number): string {
  return attempt.toString()
}

/** The number of the attempt, or undefined for anything but an integer from 1 to 999. */
export function decodeAttempt(value: HeaderValue): number | undefined {
  const digits = bounded(value)
  return /^[1-9]\d{0,2}$/.test(digits) ? Number(digits) : undefined
}

/** A value worth reading, else the empty text, which nothing here decodes. */
function bounded(value: HeaderValue): string {
  return typeof value === 'string' && value.length <= MAX_LENGTH ? value : ''
}

function encodeId(id: string): string {
  return encodeURI(id.toWellFormed()).replaceAll(';', '%3B')
}

/** Only the one spelling that `encodeId` writes: two texts for one id would be two chances to be misread. */
function decodeId(encoded: string | undefined): string | undefined {
  if (!encoded) return undefined
  try {
    const id = decodeURIComponent(encoded)
    return encodeId(id) === encoded ? id : undefined
  } catch {
    // Not percent-encoding (a URIError): malformed like anything else.
    return undefined
  }
}
