// The upstreams of one benchmark, all in one process: they read no more of a request than they must, so that the
// proxy is what is measured. Argument: JSON with the number of `upstreams`. `GET /N` answers N bytes, `GET /events` an
// event every few milliseconds, and behind an upgrade every byte comes back.
import { createServer, type Socket } from 'node:net'
import { greet } from './greet.ts'

const { upstreams } = JSON.parse(process.argv[2] ?? '') as { readonly upstreams: number }
const answers = new Map<string, Buffer>()

function answerTo(target: string): Buffer {
  let answer = answers.get(target)
  if (!answer) {
    const length = Number(target.slice(1))
    const head = [
      'HTTP/1.1 200 OK',
      'content-type: application/octet-stream',
      `content-length: ${length}`,
      'date: Thu, 01 Jan 2026 00:00:00 GMT',
      'etag: "5f1a"',
    ]
    answer = Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), Buffer.alloc(length, 'x')])
    answers.set(target, answer)
  }
  return answer
}

/** Where the first request in `text` ends; undefined while it is not all there. */
function endOfRequest(text: string): number | undefined {
  const head = text.indexOf('\r\n\r\n')
  if (head < 0) return undefined
  const fields = text.slice(0, head)
  if (/^transfer-encoding:/im.test(fields)) {
    const last = text.indexOf('\r\n0\r\n\r\n', head)
    return last < 0 ? undefined : last + 7
  }
  const end = head + 4 + Number(/^content-length: *(\d+)/im.exec(fields)?.[1] ?? 0)
  return text.length < end ? undefined : end
}

function serve(socket: Socket): void {
  let pending = ''
  socket.setNoDelay(true)
  socket.on('error', () => {}) // a proxy that is stopped
  socket.on('data', (chunk) => {
    pending += chunk.toString('latin1')
    for (let end = endOfRequest(pending); end !== undefined; end = endOfRequest(pending)) {
      const [, target = ''] = pending.slice(0, pending.indexOf('\r\n')).split(' ')
      const isUpgrade = /^upgrade:/im.test(pending.slice(0, end))
      pending = pending.slice(end)
      if (isUpgrade) return echo(socket)
      if (target === '/events') sendEvents(socket)
      else socket.write(answerTo(target))
    }
  })
}

function echo(socket: Socket): void {
  socket.removeAllListeners('data').on('data', (chunk) => socket.write(chunk))
  socket.write('HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n')
}

const eventEveryMs = 5

function sendEvents(socket: Socket): void {
  const event = `data: ${'x'.repeat(100)}\n\n`
  const chunk = `${event.length.toString(16)}\r\n${event}\r\n`
  socket.write('HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n')
  const timer = setInterval(() => socket.write(chunk), eventEveryMs)
  socket.once('close', () => clearInterval(timer))
}

await greet(async () => Array.from({ length: upstreams }, () => createServer(serve)))
