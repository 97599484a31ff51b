import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Etcd3 } from 'etcd3'

const ensureEtcd = new URL('../../scripts/ensure-etcd.mjs', import.meta.url).pathname

export interface EtcdOptions {
  /** Turns authentication on: the process's `auth` is the root user. */
  readonly auth?: boolean
  /** Serves TLS only and asks for a client certificate: the process's `tls` is what a client needs. */
  readonly tls?: boolean
  /** More command-line flags. */
  readonly flags?: readonly string[]
}

/** Starts a real etcd on free loopback ports, with a data folder of its own that `stop` removes. */
export async function startEtcd(options: EtcdOptions = {}): Promise<EtcdProcess> {
  const binary = etcdBinary()
  for (let attempt = 1; ; attempt += 1) {
    const etcd = new EtcdProcess(binary, await freePort(), await freePort(), options)
    try {
      await etcd.start()
      if (options.auth) await etcd.enableAuth()
      return etcd
    } catch (error) {
      await etcd.stop()
      // Between our look and etcd's bind somebody else may have taken the port.
      if (attempt === 3 || !String(error).includes('address already in use')) throw error
    }
  }
}

/** Path of the etcd to run. */
export function etcdBinary(): string {
  return execFileSync(process.execPath, [ensureEtcd], { encoding: 'utf8' }).trim()
}

export class EtcdProcess {
  readonly endpoint: string
  /** The root user, for a process started with `auth`. */
  readonly auth: { username: string; password: string } | undefined
  /** PEM texts for a client, for a process started with `tls`. */
  readonly tls: { ca: string; cert: string; key: string } | undefined
  readonly #binary: string
  readonly #folder = mkdtempSync(join(tmpdir(), 'etcd-test-'))
  readonly #arguments: readonly string[]
  #child: ChildProcess | undefined
  #client: Etcd3 | undefined

  constructor(binary: string, port: number, peerPort: number, options: EtcdOptions) {
    this.#binary = binary
    this.endpoint = `${options.tls ? 'https' : 'http'}://127.0.0.1:${port}`
    const peer = `http://127.0.0.1:${peerPort}`
    this.auth = options.auth ? { username: 'root', password: 'correct horse' } : undefined
    this.tls = options.tls ? makeCertificates(this.#folder) : undefined
    this.#arguments = [
      ...['--data-dir', join(this.#folder, 'data'), '--name', 'test', '--logger', 'zap'],
      ...['--listen-client-urls', this.endpoint, '--advertise-client-urls', this.endpoint],
      ...['--listen-peer-urls', peer, '--initial-advertise-peer-urls', peer],
      ...['--initial-cluster', `test=${peer}`, '--heartbeat-interval', '20', '--election-timeout', '200'],
      ...(options.tls ? tlsFlags(this.#folder) : []),
      ...(options.flags ?? []),
    ]
  }

  get pid(): number {
    if (this.#child?.pid === undefined) throw new Error('etcd does not run')
    return this.#child.pid
  }

  /** A client of the root user, for tests to write with. Closed by `stop`. */
  get client(): Etcd3 {
    this.#client ??= new Etcd3({
      hosts: this.endpoint,
      ...this.#credentials(),
      ...(this.auth && { auth: this.auth }),
    })
    return this.#client
  }

  put(key: string, value: string | object): Promise<unknown> {
    return this.client
      .put(key)
      .value(typeof value === 'string' ? value : JSON.stringify(value))
      .exec()
  }

  delete(key: string): Promise<unknown> {
    return this.client.delete().key(key).exec()
  }

  /** The store's revision now. */
  async revision(): Promise<bigint> {
    return BigInt((await this.client.get('any').exec()).header.revision)
  }

  /** Forgets history up to `revision`, by default all of it. */
  async compact(revision?: bigint): Promise<void> {
    await this.client.kv.compact({ revision: String(revision ?? (await this.revision())), physical: true })
  }

  /** Resolves once etcd serves; rejects with its output when it ends before that. */
  async start(): Promise<void> {
    const child = spawn(this.#binary, this.#arguments, { stdio: ['ignore', 'ignore', 'pipe'] })
    this.#child = child
    watchOver(child, this.#folder)
    let output = ''
    await new Promise<void>((resolve, reject) => {
      child.once('error', reject)
      child.once('exit', (code) => reject(new Error(`etcd ended with code ${code}:\n${output.slice(-4000)}`)))
      child.stderr?.setEncoding('utf8').on('data', (text: string) => {
        output = (output + text).slice(-10_000)
        if (output.includes('serving client traffic')) resolve()
      })
    })
  }

  /** Sends a signal; resolves at once for SIGSTOP and SIGCONT, else when etcd has ended. */
  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    const child = this.#child
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    child.kill(signal)
    if (signal === 'SIGSTOP' || signal === 'SIGCONT') return
    await ended
  }

  /** Starts again on the same port and data, or with `wipe` on empty data: its revisions begin anew. */
  async restart(options: { wipe?: boolean } = {}): Promise<void> {
    await this.kill()
    if (options.wipe) rmSync(join(this.#folder, 'data'), { recursive: true, force: true })
    await this.start()
  }

  async stop(): Promise<void> {
    this.#client?.close()
    await this.kill()
    rmSync(this.#folder, { recursive: true, force: true })
  }

  async enableAuth(): Promise<void> {
    if (!this.auth) throw new Error('expected a process started with auth')
    const open = new Etcd3({ hosts: this.endpoint, ...this.#credentials() })
    await open.auth.userAdd({ name: this.auth.username, password: this.auth.password })
    await open.auth.roleAdd({ name: 'root' })
    await open.auth.userGrantRole({ user: this.auth.username, role: 'root' })
    await open.auth.authEnable()
    open.close()
  }

  #credentials() {
    if (!this.tls) return {}
    const { ca, cert, key } = this.tls
    const credentials = {
      rootCertificate: Buffer.from(ca),
      certChain: Buffer.from(cert),
      privateKey: Buffer.from(key),
    }
    return { credentials }
  }
}

/** Kills `child` and removes `folder` when this process is gone, however it went: the pipe it reads closes. */
function watchOver(child: ChildProcess, folder: string): void {
  const script = `read word || { kill -9 ${child.pid}; rm -rf '${folder}'; }`
  const watchdog = spawn('sh', ['-c', script], { stdio: ['pipe', 'ignore', 'ignore'], detached: true })
  watchdog.unref()
  child.once('exit', () => watchdog.stdin?.end('ended\n'))
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  if (address === null || typeof address === 'string') throw new Error('expected a TCP address')
  return address.port
}

const tlsFlags = (folder: string) => [
  ...['--cert-file', join(folder, 'server.pem'), '--key-file', join(folder, 'server.key')],
  ...['--trusted-ca-file', join(folder, 'ca.pem'), '--client-cert-auth'],
]

/** A CA, and a server and a client certificate signed by it; returns the client's side. */
function makeCertificates(folder: string): { ca: string; cert: string; key: string } {
  const openssl = (command: string) =>
    execFileSync('openssl', command.split(' '), { cwd: folder, stdio: 'pipe' })
  const newKey = '-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
  openssl(`req -x509 ${newKey} -keyout ca.key -out ca.pem -days 2 -subj /CN=test-ca`)
  writeFileSync(join(folder, 'extensions'), 'subjectAltName=IP:127.0.0.1,DNS:localhost\n')
  for (const name of ['server', 'client']) {
    openssl(`req ${newKey} -keyout ${name}.key -out ${name}.csr -subj /CN=${name}`)
    openssl(
      `x509 -req -in ${name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out ${name}.pem -days 2 -extfile extensions`,
    )
  }
  const read = (name: string) => readFileSync(join(folder, name), 'utf8')
  return { ca: read('ca.pem'), cert: read('client.pem'), key: read('client.key') }
}
