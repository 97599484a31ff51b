import dns from 'node:dns'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { expect, onTestFinished, test, vi } from 'vitest'
import { call, startGatewayTo, startRawUpstream } from '../support/raw-http.ts'
import { ScriptedTopology } from '../support/scripted-topology.ts'
import { eventually, startGateway, startUpstream } from '../support/servers.ts'

const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

test('with one connection three concurrent requests wait their turn, whatever Host their clients send', async () => {
  const waiting: Socket[] = []
  const upstream = await startRawUpstream('a', (socket) => waiting.push(socket))
  const gateway = await startGatewayTo([upstream], { limits: { connectionsPerUpstream: 1 } })
  const answers = [1, 2, 3].map((n) => call(gateway, { path: `/${n}`, headers: { host: `host-${n}.test` } }))
  await eventually('all to be chosen', () => gateway.proxy.status().inFlight === 3)
  for (let served = 1; served <= 3; served += 1) {
    await eventually(`request ${served}`, () => upstream.heads.length === served)
    expect(upstream.sockets.size).toBe(1)
    waiting.at(-1)?.write(ok)
  }
  expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([200, 200, 200])
  expect(upstream.received).toHaveLength(1)
  expect(gateway.proxy.status().inFlight).toBe(0)
})

test('connections of an upstream that left are closed: idle ones at once, busy ones behind their answer', async () => {
  const busy: Socket[] = []
  const upstream = await startRawUpstream('a', (socket, head) => {
    if (head.includes('/busy')) busy.push(socket)
    else socket.write(ok)
  })
  const other = await startRawUpstream('b', (socket) => socket.write(ok))
  const topology = new ScriptedTopology([upstream])
  const gateway = await startGateway({ key: 'path', topology })
  const answer = call(gateway, { path: '/busy' })
  await eventually('the busy connection', () => busy.length === 1)
  await call(gateway)
  expect(upstream.sockets.size).toBe(2)
  topology.set(2n, [other])
  await eventually('the idle connection to close', () => upstream.sockets.size === 1)
  expect(await call(gateway)).toMatchObject({ status: 200 })
  expect(other.heads).toHaveLength(1)
  busy[0]?.write(ok)
  expect(await answer).toMatchObject({ status: 200 })
  await eventually('the last connection to close', () => upstream.sockets.size === 0)
  expect(other.sockets.size).toBe(1)
})

test('an upstream that stays keeps its connections', async () => {
  const upstream = await startRawUpstream('a', (socket) => socket.write(ok))
  const topology = new ScriptedTopology([upstream])
  const gateway = await startGateway({ key: 'path', topology })
  await call(gateway)
  topology.set(2n, [{ ...upstream, weight: 2 }])
  await call(gateway)
  expect(upstream.received).toHaveLength(1)
})

test('close() closes every connection', async () => {
  const upstream = await startRawUpstream('a', (socket) => socket.write(ok))
  const gateway = await startGatewayTo([upstream])
  await call(gateway)
  expect(upstream.sockets.size).toBe(1)
  await gateway.close()
  await eventually('the connection to close', () => upstream.sockets.size === 0)
})

test('names are resolved anew for each new connection', async () => {
  const first = await startUpstream('first', (_, response) =>
    response.setHeader('connection', 'close').end('first'),
  )
  const second = createServer((socket) => socket.once('data', () => socket.end(ok)))
  await new Promise<void>((resolve) => {
    second.listen(first.port, '127.0.0.2', resolve)
  })
  onTestFinished(() => {
    second.close()
  })
  const gateway = await startGatewayTo([
    { id: 'a', url: `http://moving.test:${(second.address() as AddressInfo).port}` },
  ])
  let address = '127.0.0.1'
  const asked: unknown[] = []
  // What a name server would say; all else is as it is.
  const lookup = vi.spyOn(dns, 'lookup').mockImplementation(((
    hostname: string,
    options: dns.LookupOptions,
    callback: (...result: unknown[]) => void,
  ) => {
    asked.push(hostname)
    callback(null, options.all ? [{ address, family: 4 }] : address, 4)
  }) as never)
  onTestFinished(() => lookup.mockRestore())
  expect((await call(gateway)).body.toString()).toBe('first')
  address = '127.0.0.2'
  expect((await call(gateway)).body.toString()).toBe('ok')
  expect(asked.filter((hostname) => hostname === 'moving.test')).toHaveLength(2)
})
