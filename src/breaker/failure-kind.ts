/**
 * How an attempt failed: no connection, a connection that broke, no answer in time, or an answer whose status
 * counts as a failure. The first three are *hard*: they speak of the upstream itself. A status may be owed to
 * the one key that was asked for.
 */
export type FailureKind = 'connect' | 'reset' | 'timeout' | 'status'

/**
 * Why an upstream is ejected. `connect`: every failure that led to it was a failed connect, so nobody would
 * be served there and the ejection cap does not count it. `answers`: anything else.
 */
export type EjectionCause = 'connect' | 'answers'
