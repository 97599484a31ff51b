import { X509Certificate } from 'node:crypto'
import { createSecureContext } from 'node:tls'
import { OptionsError } from '../../errors.ts'
import { messageOf, show, withoutCredentials } from '../fields.ts'
import { milliseconds } from '../milliseconds.ts'

/** How to reach etcd and as whom. */
export interface EtcdConnectionOptions {
  /** `http://host:port` or `https://host:port`, one or several members of one cluster; all of one scheme. */
  readonly hosts: string | readonly string[]
  /** Everything of ours lies below it. A missing final `/` is added. */
  readonly prefix: string
  readonly auth?: { readonly username: string; readonly password: string } | undefined
  /** PEM contents. Without `ca` the certificates that Node trusts; `cert` and `key` only together. */
  readonly tls?:
    | {
        readonly ca?: string | Buffer | undefined
        readonly cert?: string | Buffer | undefined
        readonly key?: string | Buffer | undefined
      }
    | undefined
  /** How long one call may take, in milliseconds. Default 2,000. */
  readonly requestTimeoutMs?: number | undefined
  /** How long a connection, and the creation of a watch, may take, in milliseconds. Default 2,000. */
  readonly connectTimeoutMs?: number | undefined
}

/** The names of the options above. */
export const connectionOptionNames = 'hosts prefix auth tls requestTimeoutMs connectTimeoutMs'.split(' ')

/** The same, checked and complete. */
export interface EtcdConnection {
  readonly hosts: readonly [string, ...string[]]
  readonly prefix: string
  readonly secure: boolean
  readonly auth: { readonly username: string; readonly password: string } | undefined
  readonly tls: NonNullable<EtcdConnectionOptions['tls']>
  readonly requestTimeoutMs: number
  readonly connectTimeoutMs: number
}

/** Checks the options and fills the defaults. Throws OptionsError. */
export function parseConnection(options: EtcdConnectionOptions): EtcdConnection {
  const { prefix, auth, tls, requestTimeoutMs, connectTimeoutMs } = options
  const hosts = parseHosts(options.hosts)
  const secure = hosts[0].startsWith('https:')
  if (typeof prefix !== 'string' || prefix === '' || prefix === '/') {
    throw new OptionsError(
      `prefix: expected a key prefix such as "/consistent-hash-proxy/shop/", got ${show(prefix)}`,
    )
  }
  if (auth !== undefined && (!isText(auth.username) || !isText(auth.password))) {
    throw new OptionsError('auth: expected a user name and a password, got none or an empty one')
  }
  if (tls !== undefined) checkTls(tls, hosts[0])
  return {
    hosts,
    prefix: prefix.endsWith('/') ? prefix : `${prefix}/`,
    secure,
    auth,
    tls: tls ?? {},
    requestTimeoutMs: milliseconds('requestTimeoutMs', requestTimeoutMs, 2000),
    connectTimeoutMs: milliseconds('connectTimeoutMs', connectTimeoutMs, 2000),
  }
}

function checkTls(tls: NonNullable<EtcdConnectionOptions['tls']>, host: string): void {
  if (!host.startsWith('https:')) {
    throw new OptionsError(`hosts: expected https:// with the option tls, got ${show(host)}`)
  }
  if ((tls.cert === undefined) !== (tls.key === undefined)) {
    throw new OptionsError(`tls: expected cert and key together, got only ${tls.cert ? 'cert' : 'key'}`)
  }
  try {
    createSecureContext({ ...tls })
    // A CA that is none is passed over above.
    if (tls.ca !== undefined) new X509Certificate(tls.ca)
  } catch (error) {
    throw new OptionsError(`tls: expected PEM contents in ca, cert and key, got ${messageOf(error)}`)
  }
}

function parseHosts(given: string | readonly string[]): [string, ...string[]] {
  const [first, ...others] = (typeof given === 'string' ? [given] : (given ?? [])).map(parseHost)
  if (first === undefined) {
    throw new OptionsError(`hosts: expected at least one etcd host, got ${show(given)}`)
  }
  const scheme = new URL(first).protocol
  const other = others.find((host) => new URL(host).protocol !== scheme)
  if (other !== undefined) {
    throw new OptionsError(`hosts: expected all of one scheme, got ${show(first)} and ${show(other)}`)
  }
  return [first, ...others]
}

function parseHost(host: unknown): string {
  const expected = 'hosts: expected "http://host:port" or "https://host:port"'
  if (typeof host !== 'string' || !/^https?:\/\/[^\s/@?#]+\/?$/.test(host) || !URL.canParse(host)) {
    throw new OptionsError(`${expected}, got ${show(withoutCredentials(host))}`)
  }
  const url = new URL(host)
  // gRPC would take the scheme's port for a missing one; etcd listens on 2379.
  return `${url.protocol}//${url.hostname}:${url.port || '2379'}`
}

const isText = (value: unknown) => typeof value === 'string' && value !== ''
