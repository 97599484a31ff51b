import type { OutgoingHttpHeaders } from 'node:http'
import type { Duplex, Readable } from 'node:stream'

/** Where an attempt goes: an upstream's address, split once. */
export interface Target {
  readonly protocol: 'http:' | 'https:'
  /** Without brackets, also for IPv6. */
  readonly hostname: string
  readonly port: number
  /** `host:port` as a `Host` header says it. */
  readonly host: string
  /** Scheme, host and port. */
  readonly origin: string
  /** Path that stands before every request's own, without a slash at its end; often ''. */
  readonly basePath: string
}

/** One request as one upstream shall receive it. */
export interface OutgoingRequest {
  readonly target: Target
  readonly method: string
  /** The request target exactly as it goes on the wire, base path included. */
  readonly path: string
  /** Complete and clean: nothing is added but what HTTP's framing needs. */
  readonly headers: OutgoingHttpHeaders
}

/** The body of one attempt. */
export interface OutgoingBody {
  /** Called once at most. Nothing is read of it before the connection stands. */
  open(): Readable
  /** Names and values of trailers, known after the body's end. */
  trailers(): readonly [name: string, value: string][]
}

/** How long each phase of an attempt may last, in milliseconds. */
export interface AttemptTimeouts {
  readonly connectMs: number
  readonly firstByteMs: number
  /** No byte of the request's body moved. */
  readonly idleMs: number
}

/** Where the body of an answer goes. The last call is either `end` or `break`, and there is exactly one of them. */
export interface BodySink {
  /** Takes a piece. Returns false when no more shall come until `UpstreamResponse.resume`; one may be under way. */
  write(chunk: Buffer): boolean
  /** The whole answer has arrived. `rawTrailers`: names and values in turn. */
  end(rawTrailers: readonly string[]): void
  /** The connection is gone before the end of the answer, by whoever's doing. */
  break(): void
}

/** The head of an upstream's answer. */
export interface ResponseHead {
  readonly status: number
  readonly statusText: string
  /** Names and values in turn, as received. */
  readonly rawHeaders: readonly string[]
}

/** Parsers take any three digits for a status, but Node's server throws on these. */
export function impossibleStatus(status: number): Error | undefined {
  return status >= 100 && status <= 999
    ? undefined
    : new Error(`expected a status from 100 to 999, got ${status}`)
}

/** An upstream's answer, its body still to come. */
export interface UpstreamResponse extends ResponseHead {
  /** Lets the body flow to `sink`; called once at most. Whoever does not want it aborts the attempt. */
  start(sink: BodySink): void
  resume(): void
}

/** An answer other than 101 to an upgrade. */
export interface UpgradeRefusal extends ResponseHead {
  /** Fails when the upstream breaks off. */
  readonly body: Readable
}

/**
 * How an attempt ended, as far as it decides what comes next.
 *
 * - `connectFailed`: no byte was sent, so it may be tried elsewhere whatever the method
 * - `queuedTooLong`: likewise, but for want of a free connection to an upstream that holds the others for long
 * - `staleSocket`: the upstream closed an idle connection as we wrote to it; says nothing about its health
 * - `broken`: sent, and the connection ended or spoke no HTTP before an answer's head
 * - `timedOut`: sent, and no head came in time, or the upstream took no more of the body
 * - `bodyStalled`: the client sent no more of the body; the upstream has no part in it
 * - `aborted`: we gave it up ourselves
 */
export type AttemptOutcome =
  | { readonly kind: 'responded'; readonly response: UpstreamResponse }
  | { readonly kind: 'connectFailed'; readonly error: Error }
  | { readonly kind: 'staleSocket'; readonly error: Error }
  | { readonly kind: 'broken'; readonly error: Error }
  | { readonly kind: 'queuedTooLong' | 'timedOut' | 'bodyStalled' | 'aborted' }

/** An outcome as far as its head is looked at. */
export type HeadOutcome =
  | Exclude<AttemptOutcome, { kind: 'responded' }>
  | { readonly kind: 'responded'; readonly response: ResponseHead }

/** An attempt under way. */
export interface Attempt {
  /** Never rejects. */
  readonly outcome: Promise<AttemptOutcome>
  /** Gives the attempt up at once, also in the middle of the answer's body. Idempotent. */
  abort(): void
}

export interface AttemptOptions {
  readonly body?: OutgoingBody | undefined
  readonly timeouts: AttemptTimeouts
  /** How long all the waiting together may last, which is all but the sending of the body, in milliseconds. */
  readonly totalMs: number
  /** Use a connection of its own, not one of the pool: it neither waits for one nor takes one away. */
  readonly freshConnection?: boolean
  /** An informational answer (103 Early Hints) came before the final one. */
  onInformation?(status: number, rawHeaders: readonly string[]): void
}

/**
 * How the upgrade ended.
 *
 * - `upgraded`: the upstream has agreed. `join` sends the client the 101 with these headers and joins the sockets; it
 *   resolves when the upstream's is gone
 * - `refused`: the upstream answered something else; the caller passes it on or tries elsewhere
 */
export type UpgradeOutcome =
  | {
      readonly kind: 'upgraded'
      /** Names and values in turn, as received. */
      readonly rawHeaders: readonly string[]
      join(headers: OutgoingHttpHeaders): Promise<void>
    }
  | { readonly kind: 'refused'; readonly response: UpgradeRefusal }
  | Exclude<AttemptOutcome, { kind: 'responded' } | { kind: 'staleSocket' }>

/** An upgrade under way. */
export interface UpgradeAttempt {
  /** Never rejects. */
  readonly outcome: Promise<UpgradeOutcome>
  abort(): void
}

export interface UpgradeOptions {
  /** The client's connection, with all that came behind its head still to be read. Untouched until it is joined. */
  readonly socket: Duplex
  readonly timeouts: { readonly connectMs: number; readonly handshakeMs: number }
}

/** An HTTP client that carries attempts to upstreams. It decides nothing: no retries, no health, no headers of its own. */
export interface Transport {
  send(request: OutgoingRequest, options: AttemptOptions): Attempt
  upgrade(request: OutgoingRequest, options: UpgradeOptions): UpgradeAttempt
  /** Keeps connections to these targets; those to others are closed once idle. */
  retain(targets: readonly Target[]): void
  /** Closes every pooled connection. */
  close(): void
}

/** Splits an upstream's URL, which its topology source has validated. */
export function targetOf(url: string): Target {
  const parsed = new URL(url)
  const protocol = parsed.protocol === 'https:' ? 'https:' : 'http:'
  return {
    protocol,
    hostname: parsed.hostname.replace(/^\[|\]$/g, ''),
    port: parsed.port === '' ? (protocol === 'https:' ? 443 : 80) : Number(parsed.port),
    host: parsed.host,
    origin: `${protocol}//${parsed.host}`,
    basePath: parsed.pathname.replace(/\/$/, ''),
  }
}
