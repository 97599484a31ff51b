import { rootCertificates } from 'node:tls'
import type { Etcd3, IOptions } from 'etcd3'
import type { Clock } from '../../clock.ts'
import type { EtcdConnection } from './connection.ts'
import { greet } from './greet.ts'

/**
 * A client of one host that has been seen to answer. One host, because among several a dead one hangs watches;
 * without etcd3's fault handling, because its breaker keeps failing calls after etcd is well again. The
 * caller closes it, and makes another to try again. etcd3 is loaded here, on first use: gRPC takes 0.3 s.
 */
export async function openClient(
  connection: EtcdConnection,
  host: string,
  clock: Clock,
  signal: AbortSignal,
): Promise<Etcd3> {
  await greet(connection, host, clock, signal)
  const [{ Etcd3 }, { noop }] = await Promise.all([import('etcd3'), import('cockatiel')])
  const options: IOptions = {
    hosts: host,
    faultHandling: { host: () => noop, global: noop },
    // A stream has none: keepalive watches over it.
    defaultCallOptions: ({ isStream }) => (isStream ? {} : { deadline: deadline(connection) }),
    grpcOptions: {
      // Else a new client is handed the old one's connection, stuck as it may be, from a pool of the process.
      'grpc.use_local_subchannel_pool': 1,
      // A batch above the default of 4 MiB would be dropped without an error event.
      'grpc.max_receive_message_length': -1,
      // A peer that went silent is noticed after 8 s. Pings must be more than 5 s apart: etcd hangs up on
      // clients that ping faster (its flag --grpc-keepalive-min-time).
      'grpc.keepalive_time_ms': 6000,
      'grpc.keepalive_timeout_ms': 2000,
    },
    ...(connection.auth && { auth: { ...connection.auth } }),
    ...(connection.secure && { credentials: credentials(connection) }),
  }
  return new Etcd3(options)
}

/** When a call that begins now has taken too long. In gRPC that is a point in wall-clock time. */
export function deadline({ requestTimeoutMs }: EtcdConnection): number {
  return Date.now() + requestTimeoutMs
}

function credentials({ tls: { ca, cert, key } }: EtcdConnection) {
  return {
    rootCertificate: Buffer.from(ca ?? rootCertificates.join('\n')),
    ...(cert !== undefined && { certChain: Buffer.from(cert) }),
    ...(key !== undefined && { privateKey: Buffer.from(key) }),
  }
}
