import type { IncomingMessage } from 'node:http'
import type { UpstreamResponse } from './transport.ts'

/** Node's incoming message as the transport-neutral answer. `isBroken`: whether its connection has failed. */
export function upstreamResponse(
  message: IncomingMessage,
  isBroken: () => boolean = () => false,
): UpstreamResponse {
  const { 'content-length': length, 'transfer-encoding': coding } = message.headers
  const endsWithConnection = length === undefined && coding === undefined
  return {
    status: message.statusCode ?? 502,
    statusText: reasonPhrase(message.statusMessage ?? ''),
    rawHeaders: message.rawHeaders,
    body: message,
    rawTrailers: () => message.rawTrailers,
    // Node takes every end of the connection for the end of such a body, a reset too.
    isComplete: () => message.complete && !(endsWithConnection && isBroken()),
  }
}

/** RFC 9112 §4: what a server may not write is left out, since the phrase means nothing to anybody. */
function reasonPhrase(text: string): string {
  return /[^\t\x20-\x7e\x80-\xff]/.test(text) ? '' : text
}
