import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/** A connection through the relay: what the client opened, and ours to the server behind. */
interface Link {
  readonly client: Socket
  readonly server: Socket
}

/**
 * A TCP relay on loopback that injects faults at run time into the connections through it. A setting holds for open and
 * new connections alike, from the next byte on.
 */
export class Relay {
  /** Milliseconds that each byte takes more, in either direction. */
  delayMs = 0
  /** Takes bytes in silently and passes none on. */
  swallows = false
  /** Bytes to the client after which a connection is cut; counted for each connection from its first byte. */
  cutAfterBytes = Number.POSITIVE_INFINITY
  /** Connections taken so far. */
  connections = 0
  readonly #target: number
  readonly #links = new Set<Link>()
  #server: Server | undefined
  #port = 0
  #stalled = false
  #cutting: NodeJS.Timeout | undefined

  private constructor(target: number) {
    this.#target = target
  }

  /** Relays to `target`, a port on loopback, from a free port. */
  static async start(target: number): Promise<Relay> {
    const relay = new Relay(target)
    await relay.accept()
    return relay
  }

  get port(): number {
    return this.#port
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`
  }

  get open(): number {
    return this.#links.size
  }

  /** Listens (again). */
  async accept(): Promise<void> {
    const server = createServer({ allowHalfOpen: true }, (client) => this.#link(client))
    this.#server = server
    server.listen(this.#port, '127.0.0.1')
    await once(server, 'listening')
    this.#port = (server.address() as AddressInfo).port
  }

  /** Refuses new connections; open ones stay. */
  refuse(): void {
    this.#server?.close()
  }

  /** Half-open: passes nothing on, no end either, and closes nothing. New connections are taken and stall too. */
  stall(): void {
    this.#stalled = true
    for (const { client, server } of this.#links) for (const socket of [client, server]) socket.pause()
  }

  /** Goes on where `stall` stopped. */
  resume(): void {
    this.#stalled = false
    for (const { client, server } of this.#links) {
      if (client.destroyed || server.destroyed) for (const socket of [client, server]) socket.destroy()
      else for (const socket of [client, server]) socket.resume()
    }
  }

  /** Resets every open connection, at both ends. */
  reset(): void {
    for (const { client, server } of this.#links)
      for (const socket of [client, server]) socket.resetAndDestroy()
  }

  /** Resets every open connection again and again; 0 ends that. */
  resetEvery(milliseconds: number): void {
    clearInterval(this.#cutting)
    if (milliseconds > 0) this.#cutting = setInterval(() => this.reset(), milliseconds)
  }

  close(): void {
    this.resetEvery(0)
    this.refuse()
    for (const { client, server } of this.#links) for (const socket of [client, server]) socket.destroy()
  }

  #link(client: Socket): void {
    this.connections += 1
    const server = connect({ port: this.#target, host: '127.0.0.1', allowHalfOpen: true })
    const link = { client, server }
    this.#links.add(link)
    let toClient = 0
    this.#pass(link, client, server, () => true)
    this.#pass(link, server, client, (bytes) => {
      toClient += bytes
      return toClient <= this.cutAfterBytes
    })
    if (this.#stalled) for (const socket of [client, server]) socket.pause()
  }

  #pass(link: Link, from: Socket, to: Socket, mayPass: (bytes: number) => boolean): void {
    let last = Promise.resolve()
    // Each waits for what was before it: changing the delay never changes the order.
    const inOrder = (deliver: () => void) => {
      const due = performance.now() + this.delayMs
      last = last.then(async () => {
        const left = due - performance.now()
        if (left > 0) await sleep(left)
        if (!to.destroyed) deliver()
      })
    }
    from.setNoDelay(true)
    from.on('data', (chunk: Buffer) => {
      if (this.swallows) return
      if (mayPass(chunk.length)) inOrder(() => to.write(chunk))
      else for (const socket of [link.client, link.server]) socket.destroy()
    })
    from.on('end', () => inOrder(() => to.end()))
    from.on('error', () => {}) // told by `close`
    from.on('close', () => {
      if (!this.#stalled) to.destroy()
      if (from.destroyed && to.destroyed) this.#links.delete(link)
    })
  }
}
