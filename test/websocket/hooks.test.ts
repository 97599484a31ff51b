import { once } from 'node:events'
import { expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { type ResponseHookContext, staticTopology } from '../../src/index.ts'
import { eventually } from '../support/servers.ts'
import {
  connectionsOf,
  openSocket,
  RawClient,
  startSocketGateway,
  startSocketUpstream,
  upgradeRequest,
} from '../support/web-sockets.ts'

test('hooks see an upgrade, and change its headers both ways, but not that it is one', async () => {
  const room = await startSocketUpstream('a')
  const gateway = await startSocketGateway({
    key: 'path',
    topology: staticTopology([{ id: 'a', url: room.upstream.url }]),
    onRequest({ headers }) {
      headers['X-Room'] = 'blue'
      headers.Upgrade = 'h2c'
      headers.Connection = 'x-room'
    },
    onResponse({ status, headers }) {
      headers['X-Status'] = String(status)
      headers.Upgrade = 'h2c'
    },
    rewritePath: (path) => `/rooms${path}`,
  })
  const socket = new WebSocket(`ws://127.0.0.1:${gateway.port}/7?x=1`)
  const [[answer]] = await Promise.all([once(socket, 'upgrade'), once(socket, 'open')])
  expect(answer.headers).toMatchObject({ 'x-status': '101', upgrade: 'websocket' })
  socket.terminate()
  expect(room.handshakes[0]?.headers).toMatchObject({ 'x-room': 'blue', upgrade: 'websocket' })
  expect(room.handshakes[0]?.url).toBe('/rooms/7?x=1')
})

test.each(['onRequest', 'onResponse'])(
  '%s that throws or leaves no header: 500, and nothing stays open',
  async (hook) => {
    const room = await startSocketUpstream('a')
    const gateway = await startSocketGateway({
      key: 'path',
      topology: staticTopology([{ id: 'a', url: room.upstream.url }]),
      [hook]({ request, headers }: Pick<ResponseHookContext, 'request' | 'headers'>) {
        if (request.url === '/throws') throw new Error('the operator’s mistake')
        if (request.url === '/header') headers['x-bad'] = 'two\r\nlines: 1'
      },
    })
    for (const path of ['/throws', '/header']) {
      const client = new RawClient(gateway.port).send(upgradeRequest({}, path))
      await eventually('the answer', () => client.ended)
      client.socket.end()
      expect(client.head).toMatch(/^HTTP\/1.1 500 /)
      expect(client.received).not.toMatch(/mistake|lines/)
    }
    await eventually('nothing open upstream', () => room.open.size === 0)
    await eventually('nothing open here', async () => (await connectionsOf(gateway)) === 0)
    expect(gateway.proxy.status().upstreams[0]).toMatchObject({ longLived: 0, breaker: 'closed' })
    expect((await openSocket(gateway)).greeting).toBe('a')
  },
)
