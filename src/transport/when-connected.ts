import type { ClientRequest } from 'node:http'
import { TLSSocket } from 'node:tls'

/**
 * Tells when a request's connection stands, TLS included: before that nothing of the request has reached the upstream.
 * `connecting` is called only for one that does not stand yet when the pool gives it to the request; `connected` says
 * which it was, since the upstream may just now be closing one that was idle.
 */
export function whenConnected(
  request: ClientRequest,
  listener: { connecting(): void; connected(connection: 'new' | 'reused'): void },
): void {
  request.on('socket', (socket) => {
    if (socket.destroyed) return // could not even begin to connect: its error is on the way
    // Node's `reusedSocket` tells neither: it is false behind a wait for the pool, and true for a socket that an
    // aborted request left behind while it was still connecting.
    const isTls = socket instanceof TLSSocket
    if (isTls ? socket.authorized : !socket.connecting) return listener.connected('reused')
    listener.connecting()
    socket.once(isTls ? 'secureConnect' : 'connect', () => listener.connected('new'))
  })
}
