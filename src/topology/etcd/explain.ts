import { messageOf } from '../fields.ts'
import type { EtcdConnection } from './connection.ts'

/**
 * An error in words that name the host and what to look at: a mistake in `auth` must not read like an outage
 * (one in `tls` was found by `greet`). Told apart by class name: etcd3 is not loaded for it.
 */
export function explain(error: unknown, { auth }: EtcdConnection, host: string): string {
  // grpc-js puts the time into some of its messages: the same trouble would read differently each time.
  const message = messageOf(error).replace(/ \(\d{4}-\d\d-\d\dT[^)]*\)/g, '')
  const user = auth ? `user "${auth.username}"` : 'a client without a user name'
  const said = `(${message})`
  if (message.includes('user name is empty')) {
    return `etcd at ${host} wants authentication: set the option auth ${said}`
  }
  if (message.startsWith('Watcher canceled')) {
    return `etcd at ${host} ended the watch, as after a compaction ${said}`
  }
  // Ours and its own: a member without a majority may notice at the deadline before we do, as an unknown error.
  if (message.endsWith('context deadline exceeded')) return `etcd at ${host} did not answer in time`
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
      return `etcd at ${host} is unavailable ${said}`
    default:
      return `etcd at ${host} ${message}`
  }
}
