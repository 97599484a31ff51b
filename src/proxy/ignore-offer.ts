import { Server as HttpServer, type IncomingMessage } from 'node:http'
import { Server as HttpsServer } from 'node:https'
import type { Duplex } from 'node:stream'
import { inPairs } from '../http/header-fields.ts'

/** What an offer to change protocols consists of; `HTTP2-Settings` is part of the one of RFC 7540 §3.2. */
const offer: ReadonlySet<string> = new Set(['upgrade', 'http2-settings'])

/**
 * Has the server serve the request of an upgrade as if it had not offered another protocol (RFC 9110 §7.8). Node hands
 * every connection with such an offer over as soon as a server listens to `upgrade`, and curl and Java's client make
 * one (`h2c`) with each request. It goes the whole way through the application, as one without the offer: nobody gets
 * around what stands before the proxy.
 * @returns false when `server` is none of Node's, which could take the connection back
 */
export function ignoreOffer(
  server: unknown,
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
): boolean {
  const isTls = server instanceof HttpsServer
  if (!isTls && !(server instanceof HttpServer)) return false
  socket.unshift(Buffer.concat([Buffer.from(headWithoutOffer(request), 'latin1'), head]))
  server.emit(isTls ? 'secureConnection' : 'connection', socket)
  return true
}

/** Node's parser has read it in this very form, so it will be read the same again. */
function headWithoutOffer({ method, url, httpVersion, rawHeaders }: IncomingMessage): string {
  const lines = inPairs(rawHeaders).flatMap(([name, value]) => {
    if (offer.has(name.toLowerCase())) return []
    const kept = name.toLowerCase() === 'connection' ? withoutOffer(value) : value
    return `${name}: ${kept}\r\n`
  })
  return `${method} ${url} HTTP/${httpVersion}\r\n${lines.join('')}\r\n`
}

function withoutOffer(connection: string): string {
  const options = connection.split(',').map((option) => option.trim())
  return options.filter((option) => !offer.has(option.toLowerCase())).join(', ')
}
