import type { IncomingMessage } from 'node:http'
import type { UpstreamResponse } from './transport.ts'

/** Node's incoming message as the transport-neutral answer. */
export function upstreamResponse(message: IncomingMessage): UpstreamResponse {
  return {
    status: message.statusCode ?? 502,
    statusText: reasonPhrase(message.statusMessage ?? ''),
    rawHeaders: message.rawHeaders,
    body: message,
    rawTrailers: () => message.rawTrailers,
    isComplete: () => message.complete,
  }
}

/** RFC 9112 §4: what a server may not write is left out, since the phrase means nothing to anybody. */
function reasonPhrase(text: string): string {
  return /[^\t\x20-\x7e\x80-\xff]/.test(text) ? '' : text
}
