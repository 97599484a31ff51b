// The only writer to a client's response: of upstreams' answers and of our own.

import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import { finished } from 'node:stream'
import { hasBody } from '../http/framing.ts'
import { inPairs, valuesOf } from '../http/header-fields.ts'
import type { Failure } from './failure.ts'

/** Answers the client ourselves; behind an answer that has begun only the connection can be broken. */
export function answerFailure(request: IncomingMessage, response: ServerResponse, failure: Failure): void {
  if (response.headersSent) {
    breakOff(response)
    return
  }
  const { type, body } = failureBody(request, failure)
  response.statusCode = failure.status
  response.setHeader('content-type', type)
  response.setHeader('content-length', Buffer.byteLength(body))
  response.setHeader('cache-control', 'no-store')
  if (failure.retryAfterMs !== undefined)
    response.setHeader('retry-after', retryAfterSeconds(failure.retryAfterMs))
  // What is left of the request is nobody's: the connection cannot carry another one.
  if (!request.complete) response.setHeader('connection', 'close')
  // Behind a bad head nobody knows where the request ends.
  if (request.complete || !hasBody(request) || failure.code === 'BAD_REQUEST') response.end(body)
  else answerEarly(request, response, body)
}

/** Milliseconds without a byte after which nobody waits for the rest of a request (nginx's `lingering_timeout`). */
const lingerMs = 5_000

/**
 * Answers a client that still sends its body. A connection closed with unread bytes is reset, and the reset may overtake
 * the answer: so the rest is read to nothing first (RFC 9112 §9.6).
 */
function answerEarly(request: IncomingMessage, response: ServerResponse, body: string): void {
  response.write(body)
  finished(request, () => response.end())
  response.setTimeout(lingerMs, () => response.destroy())
  request.removeAllListeners('readable').resume()
}

/** Ends the connection such that the client sees that its answer is not whole. */
export function breakOff(response: ServerResponse): void {
  const endIsMarked = response.chunkedEncoding || response.hasHeader('content-length')
  // Where only the end of the connection ends the body, as for HTTP/1.0, a regular one would look like it.
  if (!endIsMarked && response.socket && !('encrypted' in response.socket)) response.socket.resetAndDestroy()
  response.destroy()
}

/** Passes the links of early hints on (RFC 8297). */
export function writeEarlyHints(
  request: IncomingMessage,
  response: ServerResponse,
  rawHeaders: readonly string[],
): void {
  const link = valuesOf(rawHeaders, 'link')
  // RFC 9110 §15.2: HTTP/1.0 knows no informational answers.
  if (link === undefined || request.httpVersion === '1.0' || response.headersSent || response.destroyed)
    return
  try {
    response.writeEarlyHints({ link: link.split(/,\s*(?=<)/) })
  } catch {
    // Node checks the form of a link; a hint that it does not like is no loss.
  }
}

/** A short text, or JSON for whoever accepts it. */
export function failureBody(request: IncomingMessage, failure: Failure): { type: string; body: string } {
  const { code, message } = failure
  if (request.headers.accept?.includes('json')) {
    return { type: 'application/json', body: JSON.stringify({ error: { code, message } }) }
  }
  return { type: 'text/plain; charset=utf-8', body: `${message}\n` }
}

/** Whole seconds, at least one: RFC 9110 §10.2.3 knows no fractions, and 0 would invite a storm. */
export function retryAfterSeconds(milliseconds: number): string {
  return String(Math.max(1, Math.ceil(milliseconds / 1_000)))
}

/** The head of an answer as text, for a socket that has no response object. */
export function serialiseHead(status: number, text: string | undefined, headers: readonly string[]): string {
  const lines = inPairs(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  return `HTTP/1.1 ${status} ${text ?? STATUS_CODES[status] ?? ''}\r\n${lines.join('')}\r\n`
}

/**
 * Writes the head of an upstream's answer: `headers` are names and values in turn. Headers that the application has set
 * before stay, unless named again.
 */
export function writeHead(response: ServerResponse, status: number, text: string, headers: string[]): void {
  if (response.getHeaderNames().length > 0) {
    // What is named again gives way; cookies of both go together.
    for (let index = 0; index < headers.length; index += 2) {
      const name = headers[index] as string
      if (name.toLowerCase() !== 'set-cookie') response.removeHeader(name)
    }
    for (let index = 0; index < headers.length; index += 2)
      response.appendHeader(headers[index] as string, headers[index + 1] as string)
    headers = []
  }
  // Without a phrase of the upstream's Node writes the usual one.
  if (text === '') response.writeHead(status, headers)
  else response.writeHead(status, text, headers)
}
