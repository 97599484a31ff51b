import { connect as connectTcp, isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { Client } from 'undici'
import { marginMs, type PoolOptions, pooledSocketKeepAliveMs } from './connection-pools.ts'
import type { Target } from './transport.ts'

/** Who uses a connection: one request at a time. */
export interface ConnectionUser {
  /** A connection is being made for it. */
  connecting(): void
}

/** What the connections to one upstream share. */
export interface ConnectionOwner {
  /** The TLS session to resume. */
  session: Buffer | undefined
  /** It is closed; another use would make it anew. */
  closed(connection: UndiciConnection): void
}

/** One connection to an upstream, made when it is first used. */
export class UndiciConnection {
  readonly client: Client
  readonly #target: Target
  readonly #tls: PoolOptions['tls']
  readonly #owner: ConnectionOwner
  #socket: Socket | undefined
  #user: ConnectionUser | undefined
  #uses = 0
  #isReset = false

  constructor(target: Target, { idleMs, tls }: PoolOptions, owner: ConnectionOwner) {
    this.#target = target
    this.#tls = tls
    this.#owner = owner
    this.client = new Client(target.origin, {
      pipelining: 1,
      connect: (_options, callback) => this.#connect(callback),
      // Every phase is limited by our own deadlines; an idle connection by undici, which knows the upstream's word on it.
      ...{ headersTimeout: 0, bodyTimeout: 0 },
      ...{ keepAliveTimeout: idleMs, keepAliveMaxTimeout: idleMs, keepAliveTimeoutThreshold: marginMs },
    })
    this.client.on('disconnect', () => owner.closed(this))
  }

  /** Whether the upstream takes no more just now. */
  get isHeldBack(): boolean {
    return this.#socket?.writableNeedDrain ?? false
  }

  /** Whether the connection was broken off rather than ended. */
  get isReset(): boolean {
    return this.#isReset
  }

  /** Gives the connection to its next user. */
  lend(user: ConnectionUser): void {
    this.#user = user
  }

  /** A request is about to be sent. Returns whether it is the first one. */
  use(): 'new' | 'reused' {
    this.#uses += 1
    return this.#uses === 1 ? 'new' : 'reused'
  }

  /** Closes it at once, also while it is being made. */
  destroy(): void {
    this.client.destroy().catch(ignore)
    this.#socket?.destroy()
  }

  #connect(callback: (...result: [null, Socket] | [Error, null]) => void): void {
    const { hostname: host, port, protocol } = this.#target
    this.#uses = 0
    this.#isReset = false
    this.#user?.connecting()
    const isTls = protocol === 'https:'
    const socket = isTls ? this.#secured(host, port) : connectTcp({ host, port })
    this.#socket = socket
    socket.setNoDelay(true).setKeepAlive(true, pooledSocketKeepAliveMs)
    let isMade = false
    socket.once(isTls ? 'secureConnect' : 'connect', () => {
      isMade = true
      callback(null, socket)
    })
    // Before undici's listener: it takes a reset for the end of a body that nothing else ends.
    socket.on('error', (error) => {
      this.#isReset = true
      if (!isMade) callback(error, null)
    })
  }

  #secured(host: string, port: number): Socket {
    const { ca, cert, key, servername } = this.#tls
    return connectTls({
      ...{ host, port, ca, cert, key, session: this.#owner.session, ALPNProtocols: ['http/1.1'] },
      servername: servername ?? (isIP(host) ? '' : host),
    }).on('session', (ticket) => {
      this.#owner.session = ticket
    })
  }
}

const ignore = () => {}
