import type { IncomingMessage } from 'node:http'
import type { UpstreamResponse } from './transport.ts'

/** Node's incoming message as the transport-neutral answer. */
export function upstreamResponse(message: IncomingMessage): UpstreamResponse {
  return {
    status: message.statusCode ?? 502,
    statusText: message.statusMessage ?? '',
    rawHeaders: message.rawHeaders,
    body: message,
    rawTrailers: () => message.rawTrailers,
    isComplete: () => message.complete,
  }
}
