import { PassThrough } from 'node:stream'
import { expect, test } from 'vitest'
import { targetOf } from '../../src/transport/transport.ts'
import { startUpstream } from '../support/servers.ts'
import { startTransport } from '../support/transport.ts'

test('an upgrade that cannot even be begun has no hand in the next one', async () => {
  const upstream = await startUpstream('a', (_request, response) => setTimeout(() => response.end(), 100))
  const transport = startTransport()
  const upgrade = (room: string, milliseconds: number) =>
    transport.upgrade(
      {
        target: targetOf(upstream.url),
        method: 'GET',
        path: '/',
        headers: { connection: 'Upgrade', upgrade: 'websocket', 'x-room': room },
      },
      {
        socket: Object.assign(new PassThrough(), { setTimeout() {}, setNoDelay() {}, setKeepAlive() {} }),
        timeouts: { connectMs: milliseconds, handshakeMs: milliseconds },
      },
    )
  expect(() => upgrade('two\r\nlines', 10)).toThrow()
  const next = upgrade('blue', 2_000)
  expect(await next.outcome).toMatchObject({ kind: 'refused', response: { status: 200 } })
  next.abort()
})
