// An upstream in a process of its own: executes numbered requests, writes each number down as it does, and
// misbehaves as it is told. Arguments: id, port (0: any), path of the record.
import { openSync, writeSync } from 'node:fs'
import { createServer } from 'node:http'
import process, { argv, exit } from 'node:process'

const [, , id, port, record] = argv
// Written at once, in the kernel's hands when the answer begins: SIGKILL loses no line of it.
const executed = openSync(record, 'a')
let behaviour = { kind: 'answer', afterMs: 0 }

process.on('message', (told) => {
  behaviour = told
  process.send('told')
})
process.on('disconnect', () => exit()) // whoever started this is gone

const server = createServer(async (request, response) => {
  try {
    for await (const _ of request); // whole, or not executed
  } catch {
    return
  }
  const number = request.headers['x-number'] ?? ''
  writeSync(executed, `${number}\n`)
  misbehave[behaviour.kind](response, `${number} ${id}`)
})
server.listen({ port: Number(port), host: '127.0.0.1', backlog: Number(process.env.BACKLOG ?? 511) }, () => {
  process.send(server.address().port)
})

const misbehave = {
  answer(response, text) {
    setTimeout(() => response.end(text), behaviour.afterMs ?? 0)
  },
  silent() {},
  /** 503 with `Retry-After`, in seconds. */
  unavailable(response, text) {
    response.writeHead(503, { 'retry-after': String(behaviour.retryAfter) }).end(text)
  },
  /** A head that promises more than comes before the connection is reset. */
  resetWithinBody(response, text) {
    response.writeHead(200, { 'content-length': 1_000 }).write(text, () => {
      setTimeout(() => response.socket?.resetAndDestroy(), 5)
    })
  },
  reset(response) {
    response.socket.resetAndDestroy()
  },
  slowHead({ socket }, text) {
    drip(socket, `HTTP/1.1 200 OK\r\nContent-Length: ${text.length}\r\n\r\n${text}`)
  },
  slowBody(response, text) {
    response.writeHead(200, { 'content-length': text.length }).flushHeaders()
    drip(response, text, () => response.end())
  },
  endlessHeaders({ socket }) {
    socket.write('HTTP/1.1 200 OK\r\n')
    const more = setInterval(() => socket.write(`x-more: ${'m'.repeat(500)}\r\n`), 5)
    socket.once('close', () => clearInterval(more))
  },
}

/** One byte in `behaviour.everyMs`. */
function drip(stream, text, end = () => {}) {
  let at = 0
  const timer = setInterval(() => {
    stream.write(text[at])
    at += 1
    if (at < text.length) return
    clearInterval(timer)
    end()
  }, behaviour.everyMs)
  stream.once('close', () => clearInterval(timer))
}
