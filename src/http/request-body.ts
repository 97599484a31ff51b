import type { IncomingMessage } from 'node:http'
import { addAbortSignal, Readable } from 'node:stream'
import { ConsistentHashProxyError } from '../errors.ts'

/** The client went away before its body was whole. Nobody's failure but its own: no retry, no breaker. */
export class ClientAbortedError extends ConsistentHashProxyError {
  constructor(received: number, options?: ErrorOptions) {
    super(
      'CLIENT_ABORTED',
      `Expected the whole request body, got ${received} bytes before the client left`,
      options,
    )
  }
}

/** How a request's body is kept. */
export interface RequestBodyOptions {
  /** Bytes kept for a further attempt; a body of which more was read streams through, once. */
  readonly replayLimit: number
}

/**
 * The body of one request, served to one attempt after another. The client's stream is only ever read on an
 * attempt's demand, so a slow upstream slows the client, and an upstream that refused has cost nothing.
 * A body that a parser has consumed is given as bytes, and can always be replayed.
 */
export class RequestBody {
  readonly #request: IncomingMessage | undefined
  readonly #replayLimit: number
  #kept: Buffer = Buffer.alloc(0)
  /** What `#kept` is the beginning of. */
  #room: Buffer = this.#kept
  #received = 0
  #finished = false
  #dropped = false
  #failure: ClientAbortedError | undefined
  #reading = false

  /** The one live attempt, how far it is, whether it waits for bytes, and how many may be kept meanwhile. */
  #attempt: Readable | undefined
  #position = 0
  #wanted = false
  #keepLimit = 0

  constructor(source: IncomingMessage | Buffer, options: RequestBodyOptions) {
    if (Buffer.isBuffer(source)) {
      this.#replayLimit = Number.POSITIVE_INFINITY
      this.#receive(source)
      this.#finished = true
      return
    }
    this.#replayLimit = options.replayLimit
    this.#request = source
    this.#finished = source.readableEnded
    if (source.destroyed) this.#fail()
    source
      .on('end', this.#end)
      .on('error', this.#fail)
      .on('close', () => this.#fail())
  }

  /** Bytes read of it so far. */
  get received(): number {
    return this.#received
  }

  /** Whether all of it was read. */
  get finished(): boolean {
    return this.#finished
  }

  /** Whether a further `open()` would give the whole body from its first byte. Once false, false for good. */
  get replayable(): boolean {
    return !this.#dropped && this.#failure === undefined
  }

  /**
   * The body for one attempt: what was kept, then live from the client. Ends the attempt before it, without
   * harm to the client's request. When the client leaves, the stream fails with `ClientAbortedError`; that
   * error may be left unhandled. Trailers are in `request.rawTrailers` after the end.
   * Throws `ConsistentHashProxyError` (`BODY_CONSUMED`) when the first bytes are gone.
   */
  open(): Readable {
    return this.#open(this.#replayLimit)
  }

  /**
   * The whole body if it has at most `limit` bytes, else undefined; a longer one that says so in
   * `Content-Length` is not even begun. Nothing is lost: what was read is kept, whatever the replay limit, until
   * an attempt has passed it on. Ends a live attempt. Rejects with `ClientAbortedError`, or with an `AbortError`
   * when `signal` fires; throws as `open()` does.
   */
  async peek(limit: number, signal?: AbortSignal): Promise<Buffer | undefined> {
    if (Number(this.#request?.headers['content-length']) > limit) return undefined
    const attempt = this.#open(Number.POSITIVE_INFINITY)
    if (signal) addAbortSignal(signal, attempt)
    for await (const _ of attempt) if (this.#received > limit) return undefined
    return this.#kept
  }

  /**
   * Lets what is left flow to nothing, so that the client's connection can carry its next request. Unbounded:
   * a caller that does not want to wait for a long rest destroys the connection instead.
   */
  discard(): void {
    this.#drop()
    this.#serve(this.#received, 0).resume()
  }

  #open(keepLimit: number): Readable {
    if (this.#dropped) {
      const message = `Expected a body that can be replayed, got one whose first ${this.#received} bytes are gone`
      throw new ConsistentHashProxyError('BODY_CONSUMED', message)
    }
    return this.#serve(0, keepLimit)
  }

  #serve(position: number, keepLimit: number): Readable {
    this.#attempt?.destroy()
    // A high water mark of 0: bytes that nobody asked for are not taken from the client, and stay replayable.
    const attempt = new Readable({ highWaterMark: 0, read: this.#demand })
    attempt.on('error', ignore)
    this.#attempt = attempt
    this.#position = position
    this.#wanted = false
    this.#keepLimit = keepLimit
    if (this.#failure) attempt.destroy(this.#failure)
    return attempt
  }

  #demand = (): void => {
    this.#wanted = true
    this.#pump()
  }

  /** Moves one piece to the attempt if it waits for one. Called at each demand, and when the client sent more. */
  #pump = (): void => {
    const attempt = this.#attempt
    if (!this.#wanted || attempt === undefined || attempt.destroyed) return
    const piece = this.#position < this.#kept.length ? this.#kept.subarray(this.#position) : this.#read()
    if (piece === undefined && !this.#finished) return
    this.#wanted = false
    this.#position += piece?.length ?? 0
    if (this.#received > this.#keepLimit) this.#drop()
    attempt.push(piece ?? null)
  }

  #read(): Buffer | undefined {
    if (this.#request === undefined || this.#finished) return undefined
    if (!this.#reading) {
      // Not before the first demand: this listener alone starts the reading.
      this.#reading = true
      this.#request.on('readable', this.#pump)
    }
    const chunk: Buffer | null = this.#request.read()
    if (chunk !== null) this.#receive(chunk)
    return chunk ?? undefined
  }

  #receive(chunk: Buffer): void {
    const start = this.#received
    this.#received += chunk.length
    if (!this.#dropped) this.#keep(chunk, start)
  }

  /** A client that sends byte by byte must cost neither an object nor a copy of the whole for each: room doubles. */
  #keep(chunk: Buffer, start: number): void {
    const end = start + chunk.length
    if (start === 0) this.#room = chunk
    else {
      if (end > this.#room.length) {
        this.#room = Buffer.allocUnsafeSlow(Math.max(end, 2 * this.#room.length))
        this.#kept.copy(this.#room)
      }
      chunk.copy(this.#room, start)
    }
    this.#kept = this.#room.subarray(0, end)
  }

  #drop(): void {
    this.#dropped = true
    this.#kept = Buffer.alloc(0)
    this.#room = this.#kept
  }

  #end = (): void => {
    this.#finished = true
    this.#pump()
  }

  #fail = (cause?: Error): void => {
    if (this.#finished || this.#failure) return
    this.#failure = new ClientAbortedError(this.#received, { cause })
    this.#attempt?.destroy(this.#failure)
  }
}

const ignore = () => {}
