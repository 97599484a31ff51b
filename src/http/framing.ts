import type { IncomingMessage } from 'node:http'
import { isFieldName, isFieldValue } from './header-fields.ts'

/** Why a request cannot be passed on, as its answer: nothing in the text comes from the client. */
export interface FramingFault {
  readonly status: 400 | 431 | 501
  readonly message: string
}

export interface FramingLimits {
  /** Bytes of header lines, names and values with `: ` and CRLF; the request line does not count. */
  readonly requestHeaderBytes: number
}

/**
 * Looks for a head that two servers could read as different requests (request smuggling). Node's parser refuses
 * most of it unless it was told to be lenient; this does not depend on how it was told.
 */
export function checkFraming(request: IncomingMessage, limits: FramingLimits): FramingFault | undefined {
  const { rawHeaders, httpVersion } = request
  const isHttp10 = httpVersion === '1.0'
  if (headerBytes(rawHeaders) > limits.requestHeaderBytes) {
    return { status: 431, message: `Expected at most ${limits.requestHeaderBytes} bytes of headers` }
  }
  if (!hasValidCharacters(rawHeaders)) return badRequest('Expected header fields of valid characters')
  const lengths = valuesOf(rawHeaders, 'content-length')
  const codings = valuesOf(rawHeaders, 'transfer-encoding')
  return (
    (lengths.length > 0 ? checkLength(lengths, codings) : undefined) ??
    (codings.length > 0 ? checkTransferCoding(codings, isHttp10) : undefined) ??
    checkHost(valuesOf(rawHeaders, 'host'), isHttp10)
  )
}

/** Whether the head announces content (RFC 9112 §6.3); `Content-Length: 0` announces none. */
export function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}

/** RFC 9112 §5.1 and RFC 9110 §5.5: white space in a name or a control character in a value is read in many ways. */
function hasValidCharacters(rawHeaders: readonly string[]): boolean {
  for (let index = 0; index + 1 < rawHeaders.length; index += 2)
    if (!isFieldName(rawHeaders[index] as string) || !isFieldValue(rawHeaders[index + 1] as string))
      return false
  return true
}

/** RFC 9112 §6.3 item 5 lets a recipient refuse repeated lengths even when they agree, and we do. */
function checkLength(lengths: readonly string[], codings: readonly string[]): FramingFault | undefined {
  const [length = '', ...more] = lengths
  if (more.length > 0 || !/^\d+$/.test(length) || !Number.isSafeInteger(Number(length))) {
    return badRequest('Expected one Content-Length, a decimal number of bytes')
  }
  return codings.length > 0 ? badRequest('Expected Content-Length or Transfer-Encoding, got both') : undefined
}

/** RFC 9112 §6.1: chunked comes last and once, other codings are not implemented, HTTP/1.0 has none. */
function checkTransferCoding(values: readonly string[], isHttp10: boolean): FramingFault | undefined {
  if (isHttp10) return badRequest('Expected no Transfer-Encoding in HTTP/1.0')
  // Only the white space of RFC 9110 §5.6.1: `trim` would read 'chunked' where another server does not.
  const codings = values.flatMap((value) => value.toLowerCase().split(/[ \t]*,[ \t]*/))
  if (codings.indexOf('chunked') !== codings.length - 1) {
    return badRequest('Expected chunked as the last Transfer-Encoding')
  }
  return codings.length === 1
    ? undefined
    : { status: 501, message: 'Expected no other Transfer-Encoding than chunked' }
}

/** RFC 3986 §3.2.2 host, in brackets or not, with an optional port. May be empty (RFC 9110 §7.2). */
const hostPattern = /^(?:\[[\w.~!$&'()*+,;=:-]+\]|[\w.~!$&'()*+,;=%-]*)(?::\d*)?$/

/** RFC 9112 §3.2: exactly one valid Host; HTTP/1.0 may leave it out. */
function checkHost(hosts: readonly string[], isHttp10: boolean): FramingFault | undefined {
  const [host, ...more] = hosts
  if (host === undefined && isHttp10) return undefined
  return host === undefined || more.length > 0 || !hostPattern.test(host)
    ? badRequest('Expected one Host, a name or address with an optional port')
    : undefined
}

const none: readonly string[] = []

function valuesOf(rawHeaders: readonly string[], name: string): readonly string[] {
  let values: string[] | undefined
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    const other = rawHeaders[index] as string
    if (other.length !== name.length || other.toLowerCase() !== name) continue
    values ??= []
    values.push(rawHeaders[index + 1] as string)
  }
  return values ?? none
}

/** Node gives headers as latin1: one byte a character. */
function headerBytes(rawHeaders: readonly string[]): number {
  let bytes = 2 * rawHeaders.length
  for (const text of rawHeaders) bytes += text.length
  return bytes
}

function badRequest(message: string): FramingFault {
  return { status: 400, message }
}
