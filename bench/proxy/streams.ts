import { randomBytes } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { spreadOf } from '../statistics.ts'
import { connections, type LoadGenerator, type LoadResult } from './load.ts'

/** Streams of server-sent events: what one event costs. */
export const eventLoad: LoadGenerator = {
  name: 'event streams',
  async run(port, { path }, seconds) {
    const streams = await openAll(port, `GET ${path} HTTP/1.1\r\nhost: bench\r\nx-user-id: KEY\r\n\r\n`)
    let events = 0
    for (const stream of streams) {
      stream.on('data', (chunk: Buffer) => {
        for (let at = chunk.indexOf('data:'); at >= 0; at = chunk.indexOf('data:', at + 5)) events += 1
      })
    }
    await sleep(1000 * seconds)
    for (const stream of streams) stream.destroy()
    return resultOf(events, seconds, [])
  },
}

/** WebSockets that wait for the echo of each message before they send the next: what one message and its echo cost. */
export const webSocketLoad: LoadGenerator = {
  name: 'WebSockets',
  async run(port, { path, bodyBytes }, seconds) {
    const key = randomBytes(16).toString('base64')
    const sockets = await openAll(
      port,
      `GET ${path} HTTP/1.1\r\nhost: bench\r\nx-user-id: KEY\r\nconnection: Upgrade\r\nupgrade: websocket\r\n` +
        `sec-websocket-version: 13\r\nsec-websocket-key: ${key}\r\n\r\n`,
    )
    // The upstream echoes bytes, so what they are makes no difference to a proxy.
    const message = Buffer.alloc(bodyBytes, 'x')
    const latencies: number[] = []
    const end = performance.now() + 1000 * seconds
    await Promise.all(sockets.map((socket) => echo(socket, message, end, latencies)))
    return resultOf(latencies.length, seconds, latencies)
  },
}

function echo(socket: Socket, message: Buffer, end: number, latencies: number[]): Promise<void> {
  return new Promise((resolve, reject) => {
    let sent = performance.now()
    let missing = message.length
    socket.on('data', (chunk: Buffer) => {
      missing -= chunk.length
      if (missing > 0) return
      const now = performance.now()
      latencies.push(now - sent)
      if (now >= end) {
        socket.destroy()
        resolve()
        return
      }
      missing = message.length
      sent = now
      socket.write(message)
    })
    socket.once('close', () => reject(new Error('a WebSocket was closed')))
    socket.write(message)
  })
}

/** Opens the usual number of connections, each with a key of its own, and reads the heads of their answers. */
function openAll(port: number, request: string): Promise<Socket[]> {
  return Promise.all(
    Array.from({ length: connections }, (_, index) => open(port, request.replace('KEY', `user-${index}`))),
  )
}

function open(port: number, request: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1')
    const fail = () => reject(new Error('the connection was closed before an answer'))
    socket.setNoDelay(true).once('error', reject).once('close', fail)
    socket.once('data', (head: Buffer) => {
      socket.off('close', fail)
      if (/^HTTP\/1\.1 (?:200|101) /.test(head.toString('latin1'))) resolve(socket)
      else reject(new Error(`expected an open stream, got ${head.toString('latin1').split('\r\n')[0]}`))
    })
    socket.write(request)
  })
}

function resultOf(requests: number, seconds: number, latencies: readonly number[]): LoadResult {
  if (requests === 0) throw new Error('nothing came')
  const sorted = [...latencies].sort((a, b) => a - b)
  return {
    requests,
    requestsPerSecond: requests / seconds,
    p50Ms: sorted.length > 0 ? spreadOf(sorted).median : Number.NaN,
    p99Ms: sorted[Math.floor(0.99 * (sorted.length - 1))] ?? Number.NaN,
  }
}
