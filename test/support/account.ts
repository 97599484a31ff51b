/** A request without a body, or one with: with `Idempotency-Key`, or one that must not be executed twice. */
export type RequestKind = 'get' | 'keyed-post' | 'post'

/** One numbered request of the traffic, as its client saw it. */
export interface Sent {
  readonly number: number
  readonly kind: RequestKind
  readonly key: string
  /** Index of the gateway it went to. */
  readonly gateway: number
  /** Milliseconds on the process's clock. */
  readonly at: number
  /** Status, or code of the error that the client saw; undefined while there is neither. */
  result?: string
  /** Milliseconds to the end of the answer. */
  tookMs?: number
  /** What the body names: the request's number and the upstream. */
  echo?: { readonly number: number; readonly upstream: string }
}

/** What became of all the traffic. */
export interface Account {
  readonly sent: number
  /** Rate reached. */
  readonly perSecond: number
  readonly byResult: Readonly<Record<string, number>>
  /** Idempotent ones that got no good answer. */
  readonly failed: readonly Sent[]
  /** Those that may not be repeated and got no good answer. */
  readonly unsafeFailed: readonly Sent[]
  /** Neither answer nor error, or answered 200 and nowhere executed. */
  readonly lost: readonly Sent[]
  /** Numbers that several answers carried. */
  readonly answeredTwice: readonly number[]
  /** Numbers of requests that may not be executed twice, and were. */
  readonly executedTwice: readonly number[]
  /** Executions of idempotent requests beyond the first. */
  readonly repeated: number
  readonly executions: number
  readonly requests: readonly Sent[]
}

/** Draws up the account: what the clients saw against what the upstreams executed. */
export function settle(requests: readonly Sent[], executed: readonly number[]): Account {
  const executions = count(executed)
  const answers = count(requests.flatMap(({ echo }) => echo?.number ?? []))
  const isBad = ({ result, echo, number }: Sent) => result !== '200' || echo?.number !== number
  const bad = requests.filter(isBad)
  const unsafe = new Set(requests.filter(({ kind }) => kind === 'post').map(({ number }) => number))
  const seconds = ((requests.at(-1)?.at ?? 0) - (requests[0]?.at ?? 0)) / 1_000
  return {
    sent: requests.length,
    perSecond: Math.round(requests.length / seconds),
    byResult: Object.fromEntries(count(requests.map(({ result }) => result ?? 'none'))),
    failed: bad.filter(({ kind }) => kind !== 'post'),
    unsafeFailed: bad.filter(({ kind }) => kind === 'post'),
    lost: requests.filter(
      ({ number, result }) => result === undefined || (result === '200' && !executions.has(number)),
    ),
    answeredTwice: [...answers].filter(([, times]) => times > 1).map(([number]) => number),
    executedTwice: [...executions]
      .filter(([number, times]) => times > 1 && unsafe.has(number))
      .map(([n]) => n),
    repeated: [...executions].reduce((sum, [number, times]) => sum + (unsafe.has(number) ? 0 : times - 1), 0),
    executions: executed.length,
    requests,
  }
}

function count<T>(items: readonly T[]): Map<T, number> {
  const counts = new Map<T, number>()
  for (const item of items) counts.set(item, (counts.get(item) ?? 0) + 1)
  return counts
}
