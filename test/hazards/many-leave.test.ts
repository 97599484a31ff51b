import { connect, type Socket } from 'node:net'
import { expect, test } from 'vitest'
import { metricOf } from '../support/metrics.ts'
import { startGatewayTo, startRawUpstream } from '../support/raw-http.ts'
import { eventually } from '../support/servers.ts'

const clients = 500
const size = 50_000_000
const piece = Buffer.alloc(65_536, 'x')

/** Sends as much as is taken. */
function pour(socket: Socket): void {
  const send = () => {
    while (socket.writable && socket.write(piece)) {}
  }
  socket.on('drain', send).write(`HTTP/1.1 200 OK\r\nContent-Length: ${size}\r\n\r\n`)
  send()
}

/** Asks for 50 MB and leaves at the first piece of them. */
function leaveAtFirstPiece(port: number): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => {}).write('GET / HTTP/1.1\r\nHost: gateway.test\r\n\r\n')
    socket.on('data', (bytes) => {
      if (bytes.includes('xxx')) socket.destroy()
    })
    socket.once('close', () => resolve())
  })
}

test('http-party/node-http-proxy#1586, #1559: 500 clients GET 50 MB and leave after the first chunk', async () => {
  const waiting: Socket[] = []
  const upstream = await startRawUpstream('a', (socket) => {
    if (waiting.push(socket) === clients) for (const each of waiting) pour(each)
  })
  const gateway = await startGatewayTo([upstream], {
    limits: { connectionsPerUpstream: clients },
    circuitBreaker: { consecutiveFailures: 1, maxEjectionPercent: 100 },
  })
  const before = process.memoryUsage().arrayBuffers
  const leaving = Array.from({ length: clients }, () => leaveAtFirstPiece(gateway.port))
  await eventually('all requests upstream', () => upstream.heads.length === clients)
  expect(gateway.proxy.status().inFlight).toBe(clients)
  await Promise.all(leaving)
  await eventually('every upstream connection to close', () => upstream.sockets.size === 0, 1_000)
  await eventually('the slots', () => gateway.proxy.status().inFlight === 0, 1_000)
  // All ends are in this process. What 500 answers come to is 25 GB.
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(250_000_000)
  expect(gateway.proxy.status().upstreams).toMatchObject([{ inFlight: 0, breaker: 'closed' }])
  await eventually('the ends of the requests', async () => {
    return (await metricOf(gateway.proxy, 'requests_total', { outcome: 'client-gone' })) === clients
  })
  expect(await metricOf(gateway.proxy, 'ejections_total')).toBeUndefined()
  expect(upstream.heads).toHaveLength(clients)
})
