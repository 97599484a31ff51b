import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { Agent, get, type IncomingMessage, type ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { fileURLToPath } from 'node:url'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { WebSocket } from 'ws'
import { listen } from '../../examples/shared/http-server.ts'
import { eventually, startUpstream } from '../support/servers.ts'
import { startSocketUpstream } from '../support/web-sockets.ts'
import { build, startGatewayProgram } from './program.ts'

beforeAll(build)

/** A gateway in front of one upstream whose answers are held until `release`. */
async function startHeld() {
  const held: ServerResponse[] = []
  const upstream = await startUpstream('a', (_request, response) => held.push(response))
  const gateway = await startGatewayProgram({ UPSTREAMS: `a=${upstream.url}` })
  return { ...gateway, upstream, held }
}

/** Whether nobody listens there any more. Sends nothing: what is asked of a gateway that still listens is served. */
function refuses(url: string): Promise<boolean> {
  const { hostname, port } = new URL(url)
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname)
    socket.once('error', () => resolve(true)).once('connect', () => socket.destroy() && resolve(false))
  })
}

const bodyOf = async (answer: IncomingMessage) => {
  const chunks: Buffer[] = []
  for await (const chunk of answer) chunks.push(chunk)
  return Buffer.concat(chunks)
}

describe('SIGTERM', () => {
  test('a request in flight is finished, new connections are refused, readyz says 503, exit code 0', async () => {
    const { program, url, adminUrl, held } = await startHeld()
    const answer = fetch(url)
    await eventually('the request at the upstream', () => held.length === 1)
    program.signal('SIGTERM')
    await eventually('the port to close', () => refuses(url))
    const readyz = await fetch(`${adminUrl}/readyz`)
    expect([readyz.status, await readyz.json()]).toEqual([
      503,
      { ready: false, reason: 'the gateway is shutting down' },
    ])
    held[0]?.end('whole')
    expect((await answer).status).toBe(200)
    expect((await answer).headers.get('connection')).toBe('close')
    expect(await (await answer).text()).toBe('whole')
    expect(await program.ended()).toBe(0)
  })

  test('idle connections and further signals change nothing', async () => {
    const { program, url, held } = await startHeld()
    const agent = new Agent({ keepAlive: true })
    onTestFinished(() => agent.destroy())
    const idle = once(get(`${url}/idle`, { agent }), 'response') as Promise<[IncomingMessage]>
    const busy = fetch(url)
    await eventually('both at the upstream', () => held.length === 2)
    for (const response of held.splice(0, 1)) response.end('idle')
    await bodyOf((await idle)[0])
    program.signal('SIGINT')
    await eventually('the port to close', () => refuses(url))
    program.signal('SIGINT')
    program.signal('SIGTERM')
    for (const response of held) response.end('busy')
    expect(await (await busy).text()).toBe('busy')
    expect(await program.ended()).toBe(0)
  })

  test('through npm', async () => {
    const npm = spawn('npm', ['start'], {
      cwd: fileURLToPath(new URL('../..', import.meta.url)),
      env: { ...process.env, PORT: '0', ADMIN_PORT: '0' },
      stdio: ['ignore', 'pipe', 'ignore'],
      detached: true, // a process group of its own, so that nothing is left over when this fails
    })
    onTestFinished(() => {
      try {
        if (npm.pid !== undefined) process.kill(-npm.pid, 'SIGKILL')
      } catch {
        // gone, as it should be
      }
    })
    let output = ''
    npm.stdout.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
    const ended = once(npm, 'close')
    await eventually('the gateway', () => output.includes('Gateway on'), 20_000)
    npm.kill('SIGTERM')
    expect(await ended).toEqual([0, null])
    const url = /Gateway on (\S+),/.exec(output)?.[1] ?? ''
    expect(await refuses(url)).toBe(true)
  })

  test('a WebSocket that stays open is broken off after DRAIN_MS', async () => {
    const { upstream, handshakes } = await startSocketUpstream('a')
    const { program, url } = await startGatewayProgram({ UPSTREAMS: `a=${upstream.url}`, DRAIN_MS: '300' })
    const socket = new WebSocket(url.replace('http', 'ws'))
    onTestFinished(() => socket.terminate())
    await once(socket, 'open')
    expect(handshakes).toHaveLength(1)
    const closed = once(socket, 'close')
    expect(await program.stop()).toBe(0)
    await closed
  })
})

test('an answer that is complete and not yet sent arrives whole', async () => {
  const size = 50_000_000
  const server = await listen((_request, response) => response.end(Buffer.alloc(size)), {
    host: '127.0.0.1',
    port: 0,
    variable: 'PORT',
  })
  const [answer] = (await once(get(server.url), 'response')) as [IncomingMessage]
  const closing = server.close(5_000)
  await eventually('the port to close', () => refuses(server.url))
  expect((await bodyOf(answer)).length).toBe(size)
  await closing
})
