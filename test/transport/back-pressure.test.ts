import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { call, startGatewayTo } from '../support/raw-http.ts'
import { eventually, startUpstream } from '../support/servers.ts'

const size = 50_000_000
const piece = Buffer.alloc(65_536, 'x')

/** Waits until a count of bytes stands still. */
async function settled(count: () => number): Promise<number> {
  let last = -1
  await eventually('the flow to stop', async () => {
    const before = last
    last = count()
    await new Promise((resolve) => setTimeout(resolve, 150))
    return last > 0 && last === before && last === count()
  })
  return last
}

test('50 MB to a client that does not read: the upstream is held back, and memory stays flat', async () => {
  let sent = 0
  const upstream = await startUpstream('a', (_, response) => {
    response.writeHead(200, { 'content-length': size })
    const send = () => {
      while (sent < size) {
        const part = piece.subarray(0, Math.min(piece.length, size - sent))
        sent += part.length
        if (!response.write(part)) return void response.once('drain', send)
      }
      response.end()
    }
    send()
  })
  const gateway = await startGatewayTo([upstream])
  const before = process.memoryUsage().arrayBuffers
  const client = connect(gateway.port, '127.0.0.1')
  client.write('GET / HTTP/1.1\r\nHost: gateway.test\r\nConnection: close\r\n\r\n')
  client.pause()
  // What the kernel's buffers of two loopback connections take is all that flows.
  expect(await settled(() => sent)).toBeLessThan(size / 2)
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(size / 2)
  let received = 0
  client.resume().on('data', (bytes) => {
    received += bytes.length
  })
  await eventually('all of it', () => received > size)
  expect(gateway.proxy.status().inFlight).toBe(0)
})

test('50 MB to an upstream that does not read: the client is held back, and memory stays flat', async () => {
  let reader: Socket | undefined
  let received = 0
  const upstream = createServer((socket) => {
    reader = socket.on('error', () => {}).once('data', () => socket.pause())
    socket.on('data', (bytes) => {
      received += bytes.length
    })
  })
  upstream.listen(0, '127.0.0.1')
  await once(upstream, 'listening')
  onTestFinished(() => {
    upstream.close()
  })
  const { port } = upstream.address() as AddressInfo
  const gateway = await startGatewayTo([{ id: 'a', url: `http://127.0.0.1:${port}` }])
  const before = process.memoryUsage().arrayBuffers
  const client = connect(gateway.port, '127.0.0.1')
  let sent = 0
  const send = () => {
    while (sent < size) {
      sent += piece.length
      if (!client.write(piece)) return
    }
  }
  client.on('drain', send).on('error', () => {})
  client.write(`POST / HTTP/1.1\r\nHost: gateway.test\r\nContent-Length: ${size}\r\n\r\n`)
  send()
  expect(await settled(() => sent)).toBeLessThan(size / 2)
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(size / 2)
  reader?.resume()
  await eventually('all of it', () => received > size)
  client.destroy()
  await eventually('the slot', () => gateway.proxy.status().inFlight === 0)
})

test('50 MB each way arrive whole', async () => {
  const upstream = await startUpstream('a', (request, response) => request.pipe(response))
  const gateway = await startGatewayTo([upstream])
  const body = Buffer.alloc(size, 'abcdefg')
  const answer = await call(gateway, { method: 'PUT', body })
  expect(answer.body.equals(body)).toBe(true)
})
