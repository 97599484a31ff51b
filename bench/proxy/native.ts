import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Contender } from './contender.ts'

/** HAProxy with bounded-load consistent hashing, on one thread. */
export const haproxy = nativeContender('haproxy', ['haproxy', '-v'], (port, upstreams) => ({
  words: ['haproxy', '-db', '-f'],
  config: `
global
  nbthread 1
  maxconn 4096
defaults
  mode http
  timeout connect 2s
  timeout client 60s
  timeout server 60s
  timeout http-keep-alive 60s
frontend in
  bind 127.0.0.1:${port}
  default_backend upstreams
backend upstreams
  balance hdr(x-user-id)
  hash-type consistent
  hash-balance-factor 125
  http-reuse always
${upstreams.map((upstream, index) => `  server s${index} 127.0.0.1:${upstream}`).join('\n')}
`,
}))

/** nginx with consistent hashing, in one process. */
export const nginx = nativeContender('nginx', ['nginx', '-v'], (port, upstreams, folder) => ({
  words: ['nginx', '-e', join(folder, 'error.log'), '-p', folder, '-c'],
  config: `
daemon off;
master_process off;
pid ${join(folder, 'nginx.pid')};
error_log ${join(folder, 'error.log')};
events { worker_connections 4096; }
http {
  access_log off;
  keepalive_requests 100000000;
${['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `  ${name}_temp_path ${join(folder, name)};`).join('\n')}
  upstream upstreams {
    hash $http_x_user_id consistent;
${upstreams.map((upstream) => `    server 127.0.0.1:${upstream};`).join('\n')}
    keepalive 256;
    keepalive_requests 100000000;
  }
  server {
    listen 127.0.0.1:${port} backlog=4096;
    location / {
      proxy_pass http://upstreams;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
    }
  }
}
`,
}))

interface Program {
  /** Program and options; the config's path follows. */
  readonly words: readonly string[]
  readonly config: string
}

/** A proxy that is a program of the system, where it is installed. */
function nativeContender(
  name: string,
  [program = '', ...versionWords]: readonly string[],
  describe: (port: number, upstreams: readonly number[], folder: string) => Program,
): Contender {
  return {
    name,
    async start(upstreams) {
      if (spawnSync(program, versionWords).error) throw new Error(`${program} is not installed`)
      const folder = mkdtempSync(join(tmpdir(), `bench-${name}-`))
      const port = await freePort()
      const { words, config } = describe(port, upstreams, folder)
      const file = join(folder, `${name}.conf`)
      writeFileSync(file, config)
      const [command = '', ...options] = words
      const child = spawn(command, [...options, file], { stdio: ['ignore', 'ignore', 'pipe'] })
      const stop = async () => {
        await end(child)
        rmSync(folder, { recursive: true })
      }
      try {
        await untilListening(child, port)
      } catch (error) {
        await stop()
        throw error
      }
      return { port, cpuMicroseconds: async () => cpuMicrosecondsOf(child), stop }
    },
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill('SIGKILL')
  await ended
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

async function untilListening(child: ChildProcess, port: number): Promise<void> {
  let complaint = ''
  child.stderr?.on('data', (chunk) => {
    complaint += chunk
  })
  for (let tries = 0; tries < 200; tries++) {
    if (child.exitCode !== null) throw new Error(`it ended with code ${child.exitCode}: ${complaint.trim()}`)
    if (await accepts(port)) return
    await sleep(25)
  }
  throw new Error(`it did not listen within 5 s: ${complaint.trim()}`)
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy()
      resolve(true)
    }).once('error', () => resolve(false))
  })
}

/** Linux counts in hundredths of a second; with a second a round that is near enough. */
function cpuMicrosecondsOf({ pid }: ChildProcess): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) * 10_000
}
