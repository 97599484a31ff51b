import { type Clock, systemClock } from '../../clock.ts'
import { OptionsError } from '../../errors.ts'
import { requireKnown } from '../../known-options.ts'
import { type Logger, silentLogger } from '../../logger.ts'
import { show } from '../fields.ts'
import { milliseconds } from '../milliseconds.ts'
import { type UpstreamInput, upstreamOption } from '../parse-upstream.ts'
import { hostFilter } from '../upstream-url.ts'
import { connectionOptionNames, type EtcdConnectionOptions, parseConnection } from './connection.ts'
import { LeasedRegistration, type Registration } from './leased-registration.ts'

export interface RegisterUpstreamOptions extends EtcdConnectionOptions {
  /** What gateways shall know of this upstream; as in `staticTopology`. */
  readonly upstream: UpstreamInput
  /** How long the registration outlives a process that died, in seconds. Default 10. */
  readonly ttlSeconds?: number | undefined
  /** How long `close` stays registered as draining, so that gateways stop sending, in milliseconds. Default 1,000. */
  readonly drainMs?: number | undefined
  readonly logger?: Logger | undefined
  readonly clock?: Clock | undefined
}

/**
 * Keeps this process registered in etcd as an upstream, under a lease: it is gone `ttlSeconds` after the
 * process. Registers again after every loss, but not over a successor of the same id. Throws OptionsError.
 *
 * With authentication the user needs to read and write the prefix.
 */
export function registerUpstream(options: RegisterUpstreamOptions): Registration {
  requireKnown(options, [
    ...connectionOptionNames,
    ...['upstream', 'ttlSeconds', 'drainMs', 'logger', 'clock'],
  ])
  const { ttlSeconds = 10, drainMs, logger = silentLogger, clock = systemClock } = options
  if (!Number.isInteger(ttlSeconds) || ttlSeconds < 1) {
    throw new OptionsError(`ttlSeconds: expected a whole number of at least 1, got ${show(ttlSeconds)}`)
  }
  return new LeasedRegistration({
    connection: parseConnection(options),
    upstream: upstreamOption('upstream', options.upstream, { mayHaveHost: hostFilter(undefined) }),
    ttlSeconds,
    drainMs: milliseconds('drainMs', drainMs, 1000, 0),
    logger,
    clock,
  })
}
