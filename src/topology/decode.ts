import { isUtf8 } from 'node:buffer'
import { RefusedEntryError } from '../errors.ts'
import { checkMetadata, checkName, checkState, checkWeight, isRecord, refusedField } from './fields.ts'
import type { Upstream, UpstreamState } from './topology.ts'
import { type HostFilter, hostAndPort, parseUpstreamUrl, urlText } from './upstream-url.ts'

/** What is known of an entry beside its value. */
export interface EntryRules {
  /** The id of an entry that names none; without it `host:port` of its URL. */
  readonly defaultId?: string
  readonly mayHaveHost: HostFilter
}

/** What an operator sets over a registration. */
export interface Override {
  readonly weight?: number
  readonly state?: UpstreamState
}

/**
 * Reads one entry: a bare URL, JSON `{"id","url","weight","state","zone","metadata"}` where only `url` is
 * required, or the JSON of Go's clientv3 naming (`{"Op":0,"Addr":"host:port","Metadata":…}`). Unknown JSON
 * members are ignored, so that a newer writer does not stop an older reader. Total: any value gives an
 * upstream or throws RefusedEntryError.
 */
export function decodeUpstream(value: Buffer, rules: EntryRules): Upstream {
  const text = textOf(value)
  if (!text.startsWith('{')) return buildUpstream({ url: text }, rules)
  const fields = parseRecord(text)
  return buildUpstream('Addr' in fields && !('url' in fields) ? fromGoNaming(fields) : fields, rules)
}

/** Reads one override, JSON `{"weight","state"}`, both optional. Throws RefusedEntryError. */
export function decodeOverride(value: Buffer): Override {
  const { weight, state } = parseRecord(textOf(value))
  return {
    ...(weight !== undefined && { weight: checkWeight(weight) }),
    ...(state !== undefined && { state: checkState(state) }),
  }
}

/** Checks every field of an entry, fills the defaults and drops what it does not know. Throws RefusedEntryError. */
export function buildUpstream(fields: Readonly<Record<string, unknown>>, rules: EntryRules): Upstream {
  const url = parseUpstreamUrl(fields.url, rules.mayHaveHost)
  const { id = rules.defaultId ?? hostAndPort(url), weight = 1, state = 'active', zone, metadata } = fields
  return {
    id: checkName('id', id),
    url: urlText(url),
    weight: checkWeight(weight),
    state: checkState(state),
    ...(zone !== undefined && { zone: checkName('zone', zone) }),
    ...(metadata !== undefined && { metadata: checkMetadata(metadata) }),
  }
}

function textOf(value: Buffer): string {
  if (!isUtf8(value)) throw new RefusedEntryError('json', 'value: expected UTF-8, got other bytes')
  return value.toString().trim()
}

function parseRecord(text: string): Record<string, unknown> {
  let parsed: unknown
  try {
    parsed = JSON.parse(text)
  } catch {
    throw refusedField('json', 'value', 'JSON', `${text.slice(0, 12)}…`)
  }
  if (isRecord(parsed)) return parsed
  throw refusedField('json', 'value', 'a JSON object', parsed)
}

/** etcd's client/v3/naming/endpoints, type internal.Update: Op 0 adds; Metadata is whatever its writer had. */
function fromGoNaming({ Op = 0, Addr, Metadata }: Record<string, unknown>): Record<string, unknown> {
  if (Op !== 0) throw refusedField('field', 'Op', '0', Op)
  const url = typeof Addr === 'string' && !Addr.includes('://') ? `http://${Addr}` : Addr
  if (Metadata === undefined || Metadata === null) return { url }
  return { url, metadata: isRecord(Metadata) ? Metadata : { Metadata } }
}
