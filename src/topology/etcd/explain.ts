import { messageOf } from '../fields.ts'
import type { EtcdConnection } from './connection.ts'

/**
 * An etcd3 error in words that name the host and what to look at. A mistake in `auth` or `tls` must not read
 * like an outage: etcd3 reports a wrong CA, a missing client certificate and http spoken to https all as
 * "unavailable". Told apart by class name, since etcd3 is not loaded everywhere that this is.
 */
export function explain(error: unknown, { secure, auth }: EtcdConnection, host: string): string {
  const message = messageOf(error)
  const user = auth ? `user "${auth.username}"` : 'a client without a user name'
  const said = `(${message})`
  if (message.includes('user name is empty')) {
    return `etcd at ${host} wants authentication: set the option auth ${said}`
  }
  if (message.startsWith('Watcher canceled')) {
    return `etcd at ${host} ended the watch, as after a compaction ${said}`
  }
  switch (error instanceof Error ? error.constructor.name : '') {
    case 'EtcdAuthenticationFailedError':
      return `etcd at ${host} refuses ${user}: check user name and password in the option auth ${said}`
    case 'EtcdInvalidAuthTokenError':
      return `etcd at ${host} no longer knows the token of ${user} ${said}`
    case 'EtcdPermissionDeniedError':
      return `etcd at ${host} does not permit this to ${user}: check the user's roles ${said}`
    case 'GRPCFailedPreconditionError':
      return message.includes('authentication is not enabled')
        ? `etcd at ${host} has authentication disabled, but the option auth is set ${said}`
        : `etcd at ${host} refuses the call ${said}`
    case 'GRPCDeadlineExceededError':
      return `etcd at ${host} did not answer in time`
    case 'GRPCUnavailableError':
      return secure
        ? `etcd at ${host} cannot be reached, or TLS failed: check the option tls (ca, cert, key) ${said}`
        : `etcd at ${host} cannot be reached, or it speaks TLS (then: https://) ${said}`
    default:
      return `etcd at ${host}: ${message}`
  }
}
