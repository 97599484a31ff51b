/** An answer of our own in place of an upstream's: nothing in it names an upstream or comes from the client. */
export interface Failure {
  readonly status: number
  /** Stable, for programs. */
  readonly code: FailureCode
  /** For people. */
  readonly message: string
  /** Milliseconds after which trying again makes sense. */
  readonly retryAfterMs?: number
}

export type FailureCode =
  | 'BAD_REQUEST'
  | 'KEY_MISSING'
  | 'KEY_TOO_LONG'
  | 'BODY_NOT_FORWARDABLE'
  | 'BODY_TOO_SLOW'
  | 'OVERLOADED'
  | 'NO_UPSTREAM'
  | 'UPSTREAM_UNREACHABLE'
  | 'UPSTREAM_RESET'
  | 'UPSTREAM_TIMEOUT'
  | 'MISDIRECTED'
  | 'INTERNAL'

/** What to answer where the same words are needed in several places. */
export const failures = {
  closing: { status: 503, code: 'NO_UPSTREAM', message: 'The gateway is shutting down', retryAfterMs: 1_000 },
  overloaded: {
    status: 503,
    code: 'OVERLOADED',
    message: 'Too many requests in flight',
    retryAfterMs: 1_000,
  },
  keyMissing: { status: 400, code: 'KEY_MISSING', message: 'The request lacks its routing key' },
  keyTooLong: { status: 400, code: 'KEY_TOO_LONG', message: 'The routing key is too long' },
  notWebSocket: {
    status: 400,
    code: 'BAD_REQUEST',
    message: 'Expected an upgrade to websocket by GET',
  },
  upgradeWithBody: {
    status: 400,
    code: 'BAD_REQUEST',
    message: 'Expected an upgrade request without a body',
  },
  bodyTooSlow: { status: 408, code: 'BODY_TOO_SLOW', message: 'The request body did not arrive in time' },
  reset: { status: 502, code: 'UPSTREAM_RESET', message: 'The upstream broke the connection' },
  timeout: { status: 504, code: 'UPSTREAM_TIMEOUT', message: 'The upstream did not answer in time' },
  unreachable: {
    status: 503,
    code: 'UPSTREAM_UNREACHABLE',
    message: 'No upstream could be reached',
    retryAfterMs: 1_000,
  },
  misdirected: {
    status: 503,
    code: 'MISDIRECTED',
    message: 'No upstream holds what was asked for just now',
    retryAfterMs: 1_000,
  },
  internal: { status: 500, code: 'INTERNAL', message: 'The gateway failed' },
} as const satisfies Record<string, Failure>
