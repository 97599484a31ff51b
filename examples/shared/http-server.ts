import { createServer, type RequestListener, type Server, type ServerResponse } from 'node:http'
import { Server as TcpServer } from 'node:net'
import { StartError } from './run.ts'

/** A server that listens, and that can be closed without cutting an answer short. */
export interface HttpServer {
  readonly server: Server
  /** Where it can be reached. */
  readonly url: string
  /** Accepts no more connections, waits up to `milliseconds` for answers on their way, then closes all connections. */
  close(milliseconds: number): Promise<void>
}

/**
 * Starts a server. `variable` is the environment variable that its port came from; port 0: any free one.
 *
 * @throws StartError when it cannot listen there
 */
export async function listen(
  listener: RequestListener,
  { host, port, variable }: { host: string; port: number; variable: string },
): Promise<HttpServer> {
  const server = createServer(listener)
  const close = closeBehindAnswers(server)
  await new Promise<void>((resolve, reject) => {
    server.once('error', ({ code, message }: NodeJS.ErrnoException) => {
      const why = code === 'EADDRINUSE' ? 'it is in use' : message
      reject(new StartError(`${variable}: expected a port to listen on, got ${port} on ${host}: ${why}`))
    })
    server.listen(port, host, resolve)
  })
  const address = server.address()
  const bound = typeof address === 'object' && address !== null ? address.port : port
  return { server, url: `http://${host.includes(':') ? `[${host}]` : host}:${bound}`, close }
}

/**
 * Node's own `close` and `closeIdleConnections` take a connection for idle whose answer is complete but not sent yet,
 * and cut it (seen with Node 20.20: 4 of 50 MB arrived). So this counts answers until they are sent.
 */
function closeBehindAnswers(server: Server): (milliseconds: number) => Promise<void> {
  const answers = new Set<ServerResponse>()
  let onAnswered: (() => void) | undefined
  const announceClose = (answer: ServerResponse) => {
    if (!answer.headersSent) answer.setHeader('connection', 'close')
  }
  server.prependListener('request', (_request, answer) => {
    answers.add(answer)
    if (onAnswered) announceClose(answer)
    answer.once('close', () => {
      answers.delete(answer)
      if (answers.size === 0) onAnswered?.()
    })
  })
  return async (milliseconds) => {
    TcpServer.prototype.close.call(server)
    if (answers.size > 0) {
      for (const answer of answers) announceClose(answer)
      await new Promise<void>((resolve) => {
        onAnswered = resolve
        setTimeout(resolve, milliseconds)
      })
    }
    server.close() // stops its timers; it is closed already
    server.closeAllConnections()
  }
}
