import { env } from 'node:process'
import { onTestFinished } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { HttpProxyTransport } from '../../src/transport/http-proxy-transport.ts'
import { Deadlines } from '../../src/transport/phase-timer.ts'
import { UndiciTransport } from '../../src/transport/undici-transport.ts'

/** The transport that the tests of this run are for: see the projects in `vitest.config.ts`. */
export const testedTransport = env.TRANSPORT === 'undici' ? 'undici' : 'http-proxy'

/** The tested transport by itself; closed when the test is over. */
export function startTransport(clock = systemClock, connectionsPerUpstream = 8) {
  const Transport = testedTransport === 'undici' ? UndiciTransport : HttpProxyTransport
  const transport = new Transport({ connectionsPerUpstream, idleMs: 2_000, tls: {} }, new Deadlines(clock))
  onTestFinished(() => transport.close())
  return transport
}
