import { valuesOf } from '../http/header-fields.ts'
import { reasonPhrase } from './responses.ts'
import type { BodySink, UpstreamResponse } from './transport.ts'

/** Bytes kept of a body that nobody has asked for yet; more wait with the upstream. */
const keptBytes = 65_536

/** An answer that undici received. Keeps what comes before `start`: undici tells of it as it parses. */
export class UndiciResponse implements UpstreamResponse {
  readonly status: number
  readonly statusText: string
  readonly rawHeaders: readonly string[]
  readonly #resume: () => void
  readonly #kept: Buffer[] = []
  #keptBytes = 0
  #end: { readonly rawTrailers: readonly string[] } | 'broken' | undefined
  #sink: BodySink | undefined

  /** `resume`: lets undici go on reading. */
  constructor(status: number, text: string, rawHeaders: readonly string[], resume: () => void) {
    this.status = status
    this.statusText = reasonPhrase(asReceived(text))
    this.rawHeaders = rawHeaders
    this.#resume = resume
  }

  start(sink: BodySink): void {
    this.#sink = sink
    let wantsMore = true
    for (const chunk of this.#kept.splice(0)) wantsMore = sink.write(chunk)
    if (this.#end) this.#tell(sink)
    else if (wantsMore) this.#resume()
  }

  resume(): void {
    this.#resume()
  }

  /** Takes a piece of the body. Returns whether undici shall go on reading. */
  push(chunk: Buffer): boolean {
    if (this.#sink) return this.#sink.write(chunk)
    this.#kept.push(chunk)
    this.#keptBytes += chunk.length
    return this.#keptBytes < keptBytes
  }

  /** The body is whole. */
  complete(rawTrailers: readonly string[]): void {
    this.#conclude({ rawTrailers })
  }

  /** The connection is gone; where the body was whole before, that changes nothing. */
  break(): void {
    this.#conclude('broken')
  }

  /** RFC 9110 §6.4.1, §15.4.5: no body follows, whatever the headers say of one. */
  get isBodiless(): boolean {
    return this.status === 204 || this.status === 304
  }

  /** Whether only the end of the connection ends the body (RFC 9112 §6.3). */
  get endsWithConnection(): boolean {
    return (
      valuesOf(this.rawHeaders, 'content-length') === undefined &&
      valuesOf(this.rawHeaders, 'transfer-encoding') === undefined
    )
  }

  #conclude(end: { readonly rawTrailers: readonly string[] } | 'broken'): void {
    if (this.#end) return
    this.#end = end
    if (this.#sink) this.#tell(this.#sink)
  }

  #tell(sink: BodySink): void {
    if (this.#end === 'broken') sink.break()
    else if (this.#end) sink.end(this.#end.rawTrailers)
  }
}

/** Undici takes the phrase for UTF-8; its bytes are passed on, not what they were taken for. */
function asReceived(phrase: string): string {
  return /[^\t\x20-\x7e]/.test(phrase) ? Buffer.from(phrase).toString('latin1') : phrase
}
