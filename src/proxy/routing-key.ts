import type { Config } from '../config.ts'
import { ConsistentHashProxyError } from '../errors.ts'
import type { Trust } from '../http/client-address.ts'
import { type BodyPlan, parsedJson } from '../http/consumed-body.ts'
import type { RequestBody } from '../http/request-body.ts'
import { from } from '../key/function-source.ts'
import { toKeySource } from '../key/key.ts'
import type { KeyFacts, KeyRequest, KeySource } from '../key/key-source.ts'
import type { ProxyEventEmitter } from '../observe/events.ts'
import { type Failure, failures } from './failure.ts'

/** Gets the routing key out of requests, and stands in where there is none. */
export class RoutingKey {
  readonly source: KeySource
  /** Lower-case names of the headers that the key is read from. */
  readonly headerNames: ReadonlySet<string>
  readonly #config: Config
  readonly #trust: Trust
  readonly #events: ProxyEventEmitter
  readonly #fallback: KeySource | undefined

  /** @throws OptionsError for a key source that is none */
  constructor(config: Config, trust: Trust, events: ProxyEventEmitter) {
    this.source = toKeySource(config.key)
    this.headerNames = new Set(this.source.headerNames)
    this.#config = config
    this.#trust = trust
    this.#events = events
    this.#fallback = typeof config.onMissingKey === 'function' ? from(config.onMissingKey) : undefined
  }

  /** Whether the key has to be looked for in the body, which may be long in coming: not when a chain finds it before. */
  needsBody(request: KeyRequest): boolean {
    if (this.source.bodyLimit === 0) return false
    let asked = false
    const jsonBody = () => {
      asked = true
    }
    try {
      this.source.extract(request, { clientAddress: () => this.#trust.clientAddress(request), jsonBody })
    } catch {
      // The operator's function: it will throw again in `of`, where that is told.
    }
    return asked
  }

  /** Reads as much of the body as the key needs; undefined when it has more than the key may look at. */
  async peek(
    plan: BodyPlan,
    body: RequestBody | undefined,
    signal: AbortSignal,
  ): Promise<Buffer | undefined> {
    const { bodyLimit } = this.source
    if (plan.kind === 'bytes') return plan.bytes.length <= bodyLimit ? plan.bytes : undefined
    return body?.peek(bodyLimit, signal)
  }

  /** The key, or undefined for "any upstream by chance", or why the request is refused. */
  of(request: KeyRequest, plan: BodyPlan, bytes: Buffer | undefined): string | undefined | Failure {
    const key = this.#extract(this.source, request, plan, bytes)
    if (key !== undefined) return this.#checked(key)
    this.#events.emit('missingKey')
    if (this.#config.onMissingKey === 'reject') return failures.keyMissing
    const substitute = this.#fallback && this.#extract(this.#fallback, request, plan, bytes)
    return substitute === undefined ? undefined : this.#checked(substitute)
  }

  #checked(key: string): string | Failure {
    const { keyBytes } = this.#config.limits
    // UTF-8 needs three bytes for a unit of a string at most.
    if (key.length * 3 <= keyBytes) return key
    return Buffer.byteLength(key) > keyBytes ? failures.keyTooLong : key
  }

  #extract(
    source: KeySource,
    request: KeyRequest,
    plan: BodyPlan,
    bytes: Buffer | undefined,
  ): string | undefined {
    try {
      return source.extract(request, new Facts(this.#trust, request, plan, bytes))
    } catch (error) {
      // The operator's own function: a request that it cannot read has no key, and is still served.
      this.#config.logger.warn(
        { err: withoutKey(error), source: source.description },
        'the key function threw',
      )
      return undefined
    }
  }
}

/** What is known of one request, looked for when it is asked for. */
class Facts implements KeyFacts {
  readonly #trust: Trust
  readonly #request: KeyRequest
  readonly #plan: BodyPlan
  readonly #bytes: Buffer | undefined
  #json: { value: unknown } | undefined

  constructor(trust: Trust, request: KeyRequest, plan: BodyPlan, bytes: Buffer | undefined) {
    this.#trust = trust
    this.#request = request
    this.#plan = plan
    this.#bytes = bytes
  }

  clientAddress(): string {
    return this.#trust.clientAddress(this.#request)
  }

  jsonBody(): unknown {
    this.#json ??= { value: parsedJson(this.#request, this.#plan, this.#bytes) }
    return this.#json.value
  }
}

/** An error as it may be logged: a message that is not ours may quote the key (`JSON.parse` quotes its input). */
function withoutKey(error: unknown): unknown {
  if (error instanceof ConsistentHashProxyError) return error
  if (!(error instanceof Error)) return { type: typeof error }
  const frames = error.stack?.split('\n').filter((line) => /^ {4}at .*:\d+:\d+\)?$/.test(line))
  return { type: error.name, stack: frames?.join('\n') }
}
