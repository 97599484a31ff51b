import { once } from 'node:events'
import { Agent, createServer, request as httpRequest, IncomingMessage, type ServerResponse } from 'node:http'
import { type AddressInfo, connect, createServer as createTcpServer, Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { setImmediate as turn, setTimeout as wait } from 'node:timers/promises'
import fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'
import { ClientAbortedError, RequestBody } from '../../src/http/request-body.ts'

const KiB = 1024
const replayLimit = 64 * KiB

const cleanups: (() => void)[] = []
afterEach(() => {
  for (const cleanup of cleanups.splice(0)) cleanup()
})

/** A real server whose requests the test handles by itself: `next()` gives them in order of arrival. */
async function listen(event: 'request' | 'checkContinue' = 'request') {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  cleanups.push(() => {
    server.close()
    server.closeAllConnections()
  })
  const arrived: [IncomingMessage, ServerResponse][] = []
  const waiting: ((exchange: [IncomingMessage, ServerResponse]) => void)[] = []
  server.on(event, (request: IncomingMessage, response: ServerResponse) => {
    const waiter = waiting.shift()
    if (waiter) waiter([request, response])
    else arrived.push([request, response])
  })
  const next = async () => {
    const ready = arrived.shift()
    return ready ?? (await new Promise<[IncomingMessage, ServerResponse]>((resolve) => waiting.push(resolve)))
  }
  return { port: (server.address() as AddressInfo).port, next }
}

/** A client that says exactly what the test says, and keeps what it hears. */
async function dial(port: number) {
  const socket = connect(port, '127.0.0.1')
  cleanups.push(() => socket.destroy())
  socket.on('error', () => {})
  let heard = ''
  socket.on('data', (data) => {
    heard += data.toString('latin1')
  })
  await once(socket, 'connect')
  return { socket, heard: () => heard }
}

const head = (length: number, more = '') =>
  `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${length}\r\n${more}\r\n`

/** A request with `sent` of its `length` bytes on the wire. */
async function exchange(length: number, sent: Buffer | string, limit = replayLimit) {
  const { port, next } = await listen()
  const { socket } = await dial(port)
  socket.write(head(length))
  socket.write(sent)
  const [request, response] = await next()
  return { socket, request, response, body: new RequestBody(request, { replayLimit: limit }) }
}

async function collect(stream: Readable): Promise<Buffer> {
  const pieces: Buffer[] = []
  for await (const piece of stream) pieces.push(piece)
  return Buffer.concat(pieces)
}

/** Reads at least `count` bytes as a pipe would (flowing) or as a loop would, then breaks the attempt. */
async function readThenBreak(stream: Readable, count: number, flowing: boolean): Promise<number> {
  let got = 0
  if (count === 0) stream.destroy()
  else if (flowing) {
    stream.on('data', (piece: Buffer) => {
      got += piece.length
      if (got >= count) stream.destroy()
    })
    await closed(stream)
  } else {
    for await (const piece of stream) {
      got += piece.length
      if (got >= count) break
    }
  }
  return got
}

/** Unlike `once`, does not mind an 'error' before it, and adds no listener that would take the error. */
const closed = (stream: Readable) => new Promise<void>((resolve) => stream.once('close', () => resolve()))

const numbered = (length: number) =>
  Buffer.from(Array.from({ length }, (_, index) => (index * 31 + (index >> 8)) & 255))

describe('replay', () => {
  it('gives the identical whole body after any failures, exactly as long as `replayable` says so', async () => {
    const { port, next } = await listen()
    const agent = new Agent({ keepAlive: true })
    cleanups.push(() => agent.destroy())
    const seen = { replayed: 0, refused: 0 }
    const run = async (
      chunks: number[],
      failures: number[],
      limit: number,
      flowing: boolean,
      chunked: boolean,
    ) => {
      const total = chunks.reduce((sum, size) => sum + size, 0)
      const whole = numbered(total)
      const headers = chunked ? {} : { 'content-length': total }
      const client = httpRequest({ port, agent, method: 'POST', headers })
      const answered = once(client, 'response')
      const send = async () => {
        let offset = 0
        for (const size of chunks) {
          client.write(whole.subarray(offset, offset + size))
          offset += size
          await turn()
        }
        client.end()
      }
      client.flushHeaders()
      const sending = send()
      const [request, response] = await next()
      const body = new RequestBody(request, { replayLimit: limit })
      let most = 0
      for (const failure of failures) {
        if (!body.replayable) break
        most = Math.max(most, await readThenBreak(body.open(), failure, flowing))
        expect(body.replayable).toBe(most <= limit)
        expect(body.received === 0).toBe(most === 0)
      }
      if (body.replayable) {
        seen.replayed++
        expect((await collect(body.open())).equals(whole)).toBe(true)
        expect(body.finished).toBe(true)
        expect(body.replayable).toBe(total <= limit)
      } else {
        seen.refused++
        expect(() => body.open()).toThrow(expect.objectContaining({ code: 'BODY_CONSUMED' }))
        body.discard()
      }
      response.end()
      await sending
      const [answer] = await answered
      answer.resume()
      await once(answer, 'end')
    }
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 1, max: 3000 }), { maxLength: 12 }),
        fc.array(fc.integer({ min: 0, max: 12_000 }), { maxLength: 4 }),
        fc.constantFrom(0, 1, 2000, 6000, 40_000),
        fc.boolean(),
        fc.boolean(),
        run,
      ),
      { numRuns: 150 },
    )
    expect(seen.replayed).toBeGreaterThan(20)
    expect(seen.refused).toBeGreaterThan(20)
  })

  it('keeps a body of exactly the limit, and drops one that is a byte longer', async () => {
    for (const [length, replayable] of [
      [1000, true],
      [1001, false],
    ] as const) {
      const { body } = await exchange(length, numbered(length), 1000)
      await collect(body.open())
      expect(body.replayable).toBe(replayable)
    }
  })

  it('costs nothing while nobody reads: an attempt refused before its first byte can be made again, at any size', async () => {
    const { body, request, socket } = await exchange(10_000_000, numbered(100_000))
    for (let attempt = 0; attempt < 3; attempt++) {
      const stream = body.open()
      await wait(10)
      stream.destroy()
    }
    expect(body).toMatchObject({ received: 0, replayable: true, finished: false })
    expect(request.readableDidRead).toBe(false)
    const stream = body.open()
    const got = await readThenBreak(stream, 100_000, false)
    expect(got).toBe(100_000)
    expect(body).toMatchObject({ replayable: false, finished: false })
    expect(body.received).toBeGreaterThanOrEqual(100_000)
    expect(request.destroyed).toBe(false)
    expect(socket.destroyed).toBe(false)
  })

  it('ends the attempt before it when a new one is opened, and leaves the request alone', async () => {
    const { body, request, socket } = await exchange(20, '0123456789')
    const first = body.open()
    const [piece] = await once(first, 'data')
    expect(String(piece)).toBe('0123456789')
    const second = body.open()
    expect(first.destroyed).toBe(true)
    socket.write('abcdefghij')
    expect(String(await collect(second))).toBe('0123456789abcdefghij')
    expect(request.complete).toBe(true)
  })

  it('does not read for an attempt that has not asked, because the one before it had', async () => {
    const { body, socket } = await exchange(10, '')
    const waiting = body.open()
    waiting.read()
    const stream = body.open()
    socket.write('0123456789')
    await wait(20)
    expect(body.received).toBe(0)
    expect(String(await collect(stream))).toBe('0123456789')
  })

  it('serves bytes for ever', async () => {
    const body = new RequestBody(Buffer.from('parsed'), { replayLimit: 1 })
    for (let attempt = 0; attempt < 3; attempt++) expect(String(await collect(body.open()))).toBe('parsed')
    expect(body).toMatchObject({ received: 6, replayable: true, finished: true })
    expect(String(await body.peek(6))).toBe('parsed')
    expect(await body.peek(5)).toBeUndefined()
    expect(await collect(new RequestBody(Buffer.alloc(0), { replayLimit: 1 }).open())).toHaveLength(0)
  })

  it('ends at once for a request without a body', async () => {
    const { body } = await exchange(0, '')
    expect(await collect(body.open())).toHaveLength(0)
    expect(body).toMatchObject({ received: 0, replayable: true, finished: true })
  })

  it('takes a request that has ended already for an empty body, and not for a client that left', async () => {
    const { request } = await exchange(0, '')
    request.resume()
    await closed(request)
    const body = new RequestBody(request, { replayLimit })
    expect(await collect(body.open())).toHaveLength(0)
    expect(body).toMatchObject({ replayable: true, finished: true })
  })
})

describe('back-pressure', () => {
  it('holds no more than the replay limit and the high water marks of a 20 MB body', async () => {
    const total = 20_000_000
    const { body, request, socket } = await exchange(total, '')
    const sent = Buffer.alloc(1_000_000, 'x')
    for (let part = 0; part < 20; part++) socket.write(sent)
    let passed = 0
    let worst = 0
    for await (const piece of body.open()) {
      passed += piece.length
      // Twice a reader that stalls, long enough for an eager stream to run away; else a fast one.
      if (passed - piece.length < 500_000 !== passed < 500_000 || passed === piece.length) await wait(100)
      worst = Math.max(worst, request.socket.bytesRead - passed)
    }
    expect(passed).toBe(total)
    expect(worst).toBeLessThan(replayLimit + 3 * request.readableHighWaterMark + 64 * KiB)
  })

  it('passes a stall of the upstream on to the client through a pipe', async () => {
    const total = 5_000_000
    let upstreamGot = 0
    const upstream = createTcpServer(async (socket) => {
      socket.on('data', (data) => {
        upstreamGot += data.length
      })
      socket.pause()
      await wait(150)
      socket.resume()
    })
    upstream.listen(0, '127.0.0.1')
    cleanups.push(() => upstream.close())
    await once(upstream, 'listening')
    const { body, request, socket } = await exchange(total, Buffer.alloc(total))
    const forwarded = connect((upstream.address() as AddressInfo).port, '127.0.0.1')
    cleanups.push(() => forwarded.destroy())
    body.open().pipe(forwarded, { end: false })
    let worst = 0
    while (upstreamGot < total) {
      const toKernel = forwarded.bytesWritten - forwarded.writableLength
      worst = Math.max(worst, request.socket.bytesRead - toKernel)
      await wait(2)
    }
    expect(worst).toBeGreaterThan(0)
    expect(worst).toBeLessThan(replayLimit + 4 * request.readableHighWaterMark + 64 * KiB)
    expect(socket.destroyed).toBe(false)
    expect(body.finished).toBe(true)
  })

  it('stops the client while the attempt is not read, and after the attempt is gone', async () => {
    const { body, request, socket } = await exchange(20_000_000, Buffer.alloc(20_000_000))
    const stream = body.open()
    await readThenBreak(stream, 1, false)
    await wait(50)
    const read = request.socket.bytesRead
    await wait(50)
    expect(request.socket.bytesRead).toBe(read)
    expect(read).toBeLessThan(4 * 64 * KiB)
    expect(socket.destroyed).toBe(false)
    expect(await collect(body.open())).toHaveLength(20_000_000)
  })
})

describe('peek', () => {
  it('gives a body up to the limit, one longer is undefined, and nothing is lost either way', async () => {
    for (const chunked of [false, true]) {
      for (const [length, fits] of [
        [1, true],
        [100, true],
        [101, false],
        [200_000, false],
      ] as const) {
        const whole = numbered(length)
        const { port, next } = await listen()
        const headers = chunked ? { 'transfer-encoding': 'chunked' } : { 'content-length': length }
        httpRequest({ port, method: 'POST', headers, agent: false })
          .on('error', () => {})
          .end(whole)
        const [request] = await next()
        const body = new RequestBody(request, { replayLimit: 10 })
        const peeked = await body.peek(100)
        expect(peeked?.equals(whole)).toBe(fits ? true : undefined)
        expect(body.replayable).toBe(true)
        expect(body.received === 0).toBe(!fits && !chunked)
        expect((await collect(body.open())).equals(whole)).toBe(true)
        expect(body.replayable).toBe(length <= 10)
      }
    }
  })

  it('copies what it has only now and then, however small the pieces are that come', async () => {
    const whole = numbered(2100 * KiB)
    const request = new IncomingMessage(new Socket())
    let sent = 0
    const sendSome = () => {
      const end = sent === 0 ? 2000 * KiB : sent + 1
      request.push(sent < whole.length ? whole.subarray(sent, end) : null)
      sent = end
    }
    request._read = () => void setImmediate(sendSome)
    const started = process.cpuUsage()
    expect((await new RequestBody(request, { replayLimit }).peek(whole.length))?.equals(whole)).toBe(true)
    const { user, system } = process.cpuUsage(started)
    // A copy for each byte would be 210 GB, far more than 10 s.
    expect((user + system) / 1e6).toBeLessThan(4)
  })

  it('keeps a prefix over the replay limit until one attempt has passed all of it on', async () => {
    const { body } = await exchange(50, numbered(50), 10)
    expect(await body.peek(50)).toHaveLength(50)
    expect(await body.peek(50)).toHaveLength(50)
    body.open().destroy()
    expect(body.replayable).toBe(true)
    await readThenBreak(body.open(), 1, false)
    expect(body.replayable).toBe(false)
    await expect(body.peek(50)).rejects.toMatchObject({ code: 'BODY_CONSUMED' })
  })

  it('waits no longer than its signal for a client that sends a head and then nothing', async () => {
    const { body, socket } = await exchange(10, '')
    await expect(body.peek(100, AbortSignal.timeout(30))).rejects.toMatchObject({ name: 'AbortError' })
    await expect(body.peek(100, AbortSignal.abort())).rejects.toMatchObject({ name: 'AbortError' })
    expect(body).toMatchObject({ received: 0, replayable: true, finished: false })
    socket.write('01234')
    await expect(body.peek(100, AbortSignal.timeout(30))).rejects.toMatchObject({ name: 'AbortError' })
    socket.write('56789')
    expect(String(await collect(body.open()))).toBe('0123456789')
  })
})

describe('a client that leaves', () => {
  const leave: [string, (socket: Socket) => void][] = [
    ['by a reset', (socket) => socket.resetAndDestroy()],
    ['by a FIN after half of the body', (socket) => socket.end()],
  ]

  for (const [how, away] of leave) {
    it(`${how} fails the live attempt, whether it listens or not`, async () => {
      const { body, socket } = await exchange(20, '0123456789')
      const stream = body.open()
      await once(stream, 'data')
      away(socket)
      await closed(stream)
      expect(stream.errored).toBeInstanceOf(ClientAbortedError)
      expect(stream.errored).toMatchObject({
        code: 'CLIENT_ABORTED',
        message: 'Expected the whole request body, got 10 bytes before the client left',
      })
      expect(body).toMatchObject({ replayable: false, finished: false })
      await expect(collect(body.open())).rejects.toBeInstanceOf(ClientAbortedError)
    })

    it(`${how} fails a peek`, async () => {
      const { body, socket } = await exchange(20, '0123456789')
      const peeked = body.peek(100)
      await turn()
      away(socket)
      await expect(peeked).rejects.toBeInstanceOf(ClientAbortedError)
    })

    it(`${how} is told to whoever opens later, also to a body made only then`, async () => {
      const { body, request, socket } = await exchange(20, '0123456789')
      away(socket)
      await closed(request)
      await expect(collect(body.open())).rejects.toBeInstanceOf(ClientAbortedError)
      const late = new RequestBody(request, { replayLimit })
      await expect(late.peek(100)).rejects.toBeInstanceOf(ClientAbortedError)
      body.discard()
    })
  }

  it('after the whole body was read changes nothing', async () => {
    const { body, request, socket } = await exchange(10, '0123456789')
    await collect(body.open())
    socket.resetAndDestroy()
    await closed(request.socket)
    expect(body).toMatchObject({ replayable: true, finished: true })
    expect(String(await collect(body.open()))).toBe('0123456789')
  })
})

describe('an answer that comes early', () => {
  it('lets the connection carry the next request once the rest was discarded', async () => {
    const { port, next } = await listen()
    const { socket, heard } = await dial(port)
    socket.write(head(1_000_000))
    socket.write(Buffer.alloc(1_000_000, 'x'))
    socket.write(head(3))
    socket.write('abc')
    const [request, response] = await next()
    const body = new RequestBody(request, { replayLimit })
    const stream = body.open()
    await once(stream, 'data')
    body.discard()
    body.discard()
    expect(stream.destroyed).toBe(true)
    expect(body.replayable).toBe(false)
    response.end('early')
    const [second, answer] = await next()
    expect(body.finished).toBe(true)
    expect(String(await collect(new RequestBody(second, { replayLimit }).open()))).toBe('abc')
    answer.end('done')
    await expect.poll(heard).toMatch(/early[\s\S]*done/)
  })

  it('discards a body that nobody began', async () => {
    const { port, next } = await listen()
    const { socket } = await dial(port)
    socket.write(`${head(3)}abc${head(3)}def`)
    const [request, response] = await next()
    const body = new RequestBody(request, { replayLimit })
    body.discard()
    response.end()
    expect(String(await collect(new RequestBody((await next())[0], { replayLimit }).open()))).toBe('def')
    expect(body.finished).toBe(true)
  })
})

describe('the wire', () => {
  it('takes a pipelined request right behind the body for what it is', async () => {
    const { port, next } = await listen()
    const { socket } = await dial(port)
    socket.write(`${head(3)}abc${head(6)}defghi`)
    const [first, answer] = await next()
    expect(String(await collect(new RequestBody(first, { replayLimit }).open()))).toBe('abc')
    answer.end()
    const [second] = await next()
    expect(String(await collect(new RequestBody(second, { replayLimit }).open()))).toBe('defghi')
  })

  it('does not ask for the body of `Expect: 100-continue`: the server decides when', async () => {
    const { port, next } = await listen('checkContinue')
    const { socket, heard } = await dial(port)
    socket.write(head(3, 'Expect: 100-continue\r\n'))
    const [request, response] = await next()
    const body = new RequestBody(request, { replayLimit })
    const whole = collect(body.open())
    await wait(20)
    expect(heard()).toBe('')
    response.writeContinue()
    await expect.poll(heard).toContain('100 Continue')
    socket.write('abc')
    expect(String(await whole)).toBe('abc')
  })

  it('gives trailers after the end, and a body of single bytes in one piece', async () => {
    const { port, next } = await listen()
    const { socket } = await dial(port)
    socket.write('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n')
    socket.write(`${'1\r\nz\r\n'.repeat(5000)}0\r\nX-Sum: 7\r\n\r\n`)
    const [request] = await next()
    const body = new RequestBody(request, { replayLimit })
    expect(String(await body.peek(5000))).toBe('z'.repeat(5000))
    expect(request.rawTrailers).toEqual(['X-Sum', '7'])
    const pieces: Buffer[] = []
    for await (const piece of body.open()) pieces.push(piece)
    expect(pieces).toHaveLength(1)
  })
})
