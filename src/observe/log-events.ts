import type { Clock } from '../clock.ts'
import type { Logger } from '../logger.ts'
import type { ProxyEventEmitter } from './events.ts'
import { LogLimit } from './log-limit.ts'

/** Logs what an operator wants to find when something went wrong. Nothing here names a client or a key. */
export function logEvents(events: ProxyEventEmitter, logger: Logger, clock: Clock): void {
  const refusals = new LogLimit(clock)
  events.on('topology', ({ revision, ...change }) =>
    logger.info({ ...change, revision: revision.toString() }, 'a new topology is in use'),
  )
  events.on('ejection', (event) => logger.warn(event, 'upstream ejected'))
  events.on('recovery', (event) => logger.info(event, 'upstream is back'))
  events.on('sourceLost', (event) =>
    logger.warn(event, 'the topology source is away, the last topology stays if there is one'),
  )
  events.on('sourceRegained', () => logger.info({}, 'the topology source is back'))
  events.on('refused', (event) => {
    const next = refusals.next()
    if (next === 'line') logger.warn(event, 'a topology entry is refused')
    if (next === 'left-out') {
      logger.warn({}, 'more topology entries are refused: they are counted, and not logged for 10 s')
    }
  })
  events.on('held', (event) => {
    if (event.upstreams.length === 0) logger.info(event, 'no disappeared upstream is served on any more')
    else logger.error(event, 'too many upstreams disappeared at once: they are served on for a while')
  })
  events.on('digestMismatch', (event) => {
    if (event.gateways.length === 0) logger.info(event, 'all gateways place keys alike')
    else logger.warn(event, 'gateways place keys otherwise than this one: compare their ring settings')
  })
  events.on('staleTopology', (event) => logger.info(event, 'the topology was read again'))
  events.on('retry', (event) => logger.debug(event, 'a request is tried again'))
  events.on('giveUp', (event) => logger.info(event, 'a failed request is not tried again'))
}
