import type { IncomingMessage } from 'node:http'
import { stringify } from 'qs'
import type { KeyRequest } from '../key/key-source.ts'
import { hasBody } from './framing.ts'

/** Where the bytes of a request's body are to come from. */
export type BodyPlan =
  /** The request has no body. */
  | { readonly kind: 'none' }
  /** Nobody has read it yet: it comes from the client. */
  | { readonly kind: 'stream' }
  /**
   * A parser has consumed it. These bytes have their own length and are not compressed any more (parsers
   * inflate); `contentType` is set when the charset that the client named had to give way to UTF-8.
   */
  | {
      readonly kind: 'bytes'
      readonly bytes: Buffer
      readonly dropContentEncoding: true
      readonly contentType?: string
    }
  /** It is gone; `message` names the cure. */
  | { readonly kind: 'refused'; readonly message: string }

interface ParsedRequest extends KeyRequest {
  rawBody?: unknown
  /** Set by body-parser 1 (Express 4) on every body that it began to read. */
  _body?: unknown
}

/**
 * Keeps the bytes that a parser of `body-parser` consumed, so that they can be forwarded as they came:
 * `express.json({ verify: keepRawBody })`.
 */
export function keepRawBody(
  request: IncomingMessage & { rawBody?: Buffer },
  _: unknown,
  bytes: Buffer,
): void {
  request.rawBody = bytes
}

/**
 * Decides how a request's body can be forwarded. The state of the stream says whether a parser has consumed
 * it; `request.body` alone does not, since Express 4 sets it to `{}` on requests that it left alone.
 */
export function describeBody(request: ParsedRequest): BodyPlan {
  if (!hasBody(request)) return { kind: 'none' }
  if (request.readableEncoding !== null) return refused('one whose stream was told to decode (`setEncoding`)')
  if (isUnread(request)) return { kind: 'stream' }
  if (!request.readableEnded) return refused('one that was read in part')
  if (!request.readableDidRead) return bytes(Buffer.alloc(0))
  if (Buffer.isBuffer(request.rawBody)) return bytes(request.rawBody)
  if (Buffer.isBuffer(request.body)) return bytes(request.body)
  return serialised(request)
}

/**
 * The JSON value of a body for key extraction, or undefined when it is not JSON; never throws. `plan` is what
 * `describeBody` said, `bytes` the body as planned or peeked, undefined when it is longer than a key may look at.
 * What a JSON parser has left in `request.body` is not parsed again.
 */
export function parsedJson(request: KeyRequest, plan: BodyPlan, bytes: Buffer | undefined): unknown {
  if (bytes === undefined || bytes.length === 0) return undefined
  if (plan.kind === 'bytes') {
    if (isJson(mediaType(request)) && isObject(request.body)) return request.body
  } else if (isEncoded(request)) return undefined
  // The decoder takes off a byte order mark, as body-parser does.
  return parsed(new TextDecoder().decode(bytes))
}

function isUnread(request: IncomingMessage): boolean {
  return !request.readableDidRead && !request.readableEnded && request.readableFlowing !== true
}

function isEncoded({ headers }: IncomingMessage): boolean {
  return (headers['content-encoding'] ?? 'identity').toLowerCase() !== 'identity'
}

function serialised(request: ParsedRequest): BodyPlan {
  const { body } = request
  const type = mediaType(request)
  if (body === undefined) return refused('one that was consumed without a parsed `request.body`')
  if (type.startsWith('multipart/')) return refused('a multipart body that was consumed')
  if (isLeftover(request)) return refused('one that was consumed by a parser that failed')
  try {
    if (typeof body === 'string') return text(request, body)
    if (isJson(type)) return encoded(request, JSON.stringify(body))
    if (type === 'application/x-www-form-urlencoded' && isObject(body)) {
      return bytes(Buffer.from(form(body, charsetOf(request) === 'iso-8859-1' ? 'iso-8859-1' : 'utf-8')))
    }
  } catch {
    return refused('one that was parsed to what cannot be serialised')
  }
  return refused('a parsed body whose content type is neither JSON nor urlencoded')
}

/** body-parser 1 leaves `{}` behind when it fails; only the length of `{}` itself tells that from an empty object. */
function isLeftover({ _body, body, headers }: ParsedRequest): boolean {
  return (
    _body === true && isObject(body) && Object.keys(body).length === 0 && headers['content-length'] !== '2'
  )
}

/** A string may be JSON text, or a JSON string that a lenient parser has unwrapped: only an object or array is clear. */
function text(request: ParsedRequest, body: string): BodyPlan {
  if (isJson(mediaType(request)) && !isObject(parsed(body))) return refused('JSON consumed to a string')
  return encoded(request, body)
}

/** In the charset that the client named if it can say it without loss, else in UTF-8. */
function encoded(request: ParsedRequest, body: string): BodyPlan {
  const encoding = encodings.get(charsetOf(request))
  const content = Buffer.from(body, encoding)
  if (encoding === 'utf8' || (encoding && content.toString(encoding) === body)) return bytes(content)
  const contentType = request.headers['content-type']?.replace(charsetParameter, '$1utf-8')
  return { ...bytes(Buffer.from(body)), ...(contentType && { contentType }) }
}

/**
 * Parses back to the same values. A list of plain strings repeats its name, which every parser understands;
 * other nesting needs `name[0]`, and only a parser that knows it can have made it.
 */
function form(body: object, charset: 'utf-8' | 'iso-8859-1'): string {
  const fields = Object.entries(body).map(([name, value]) => {
    const repeats =
      Array.isArray(value) && value.length > 1 && value.every((item) => typeof item === 'string')
    return stringify(
      { [name]: value },
      { charset, format: 'RFC1738', arrayFormat: repeats ? 'repeat' : 'indices' },
    )
  })
  return fields.filter((field) => field !== '').join('&')
}

function bytes(content: Buffer) {
  return { kind: 'bytes', bytes: content, dropContentEncoding: true } as const
}

function refused(found: string): BodyPlan {
  const cure = 'mount the proxy before the parser, or give body-parser `verify: keepRawBody`'
  return { kind: 'refused', message: `Expected a request body that can be forwarded, got ${found}: ${cure}` }
}

function isJson(type: string): boolean {
  return type === 'application/json' || type.endsWith('+json')
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Buffer.isBuffer(value)
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    return undefined
  }
}

function mediaType({ headers }: IncomingMessage): string {
  return (headers['content-type'] ?? '').split(';', 1).join().trim().toLowerCase()
}

function charsetOf({ headers }: IncomingMessage): string {
  const [, , charset = 'utf-8'] = charsetParameter.exec(headers['content-type'] ?? '') ?? []
  return charset.replaceAll('"', '').toLowerCase()
}

const charsetParameter = /(;\s*charset\s*=\s*)("[^"]*"|[^\s;]+)/i

/** The charsets that Node.js can write. */
const encodings = new Map<string, BufferEncoding>([
  ['utf-8', 'utf8'],
  ['iso-8859-1', 'latin1'],
  ['utf-16le', 'utf16le'],
])
