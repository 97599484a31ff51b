import type { ClientRequest } from 'node:http'

/**
 * Tells when a request's connection stands, TLS included: before that nothing of the request has reached the upstream.
 * `connecting` is called only for a new connection, once the pool gives the request a socket.
 */
export function whenConnected(
  request: ClientRequest,
  listener: { connecting(): void; connected(): void },
): void {
  request.once('socket', (socket) => {
    const tls = 'encrypted' in socket
    if (request.reusedSocket || (!socket.connecting && !tls)) {
      listener.connected()
      return
    }
    listener.connecting()
    socket.once(tls ? 'secureConnect' : 'connect', () => listener.connected())
  })
}
