import { connect as connectHttp2 } from 'node:http2'
import { connect as connectTcp, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { Clock } from '../../clock.ts'
import { messageOf } from '../fields.ts'
import type { EtcdConnection } from './connection.ts'

/**
 * Resolves when the host has answered in HTTP/2, on a connection that is then dropped; else rejects with what
 * is the matter. Asked before gRPC is: that neither gives up on a host that accepts connections and never
 * speaks (each client would leave a socket behind), nor tells a TLS mistake from a host that is down. Aborting
 * drops the connection at once.
 */
export function greet(
  connection: EtcdConnection,
  host: string,
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  const { secure, connectTimeoutMs } = connection
  const socket = openSocket(connection, host)
  let reached = false
  return new Promise((resolve, reject) => {
    const settle = (problem?: string) => {
      timer.cancel()
      signal.removeEventListener('abort', abort)
      session.destroy()
      socket.destroy()
      if (problem === undefined) resolve()
      else reject(new Error(problem))
    }
    const fail = (error?: Error) => settle(problemOf(reached, secure, error))
    const timer = clock.setTimeout(
      () => settle(`did not answer within ${connectTimeoutMs} ms`),
      connectTimeoutMs,
    )
    const abort = () => settle('was not waited for')
    signal.addEventListener('abort', abort)
    const session = connectHttp2(host, { createConnection: () => socket })
    session
      .once('remoteSettings', () => settle())
      .on('error', fail)
      .once('close', fail)
    socket
      .once('connect', () => {
        reached = true
      })
      .on('error', fail)
      .once('close', () => fail())
  })
}

function openSocket({ secure, tls }: EtcdConnection, origin: string): Socket {
  const { hostname, port } = new URL(origin)
  const host = hostname.replace(/^\[|\]$/g, '')
  if (!secure) return connectTcp(Number(port), host)
  return connectTls({ ...tls, host, port: Number(port), ALPNProtocols: ['h2'] })
}

function problemOf(reached: boolean, secure: boolean, error?: Error): string {
  const why = error === undefined ? 'it hung up' : 'reason' in error ? String(error.reason) : messageOf(error)
  if (!reached) return `cannot be reached (${why})`
  return secure
    ? `failed the TLS handshake: check ca, cert and key in the option tls (${why})`
    : `does not speak HTTP/2: does it want https:// and the option tls? (${why})`
}
