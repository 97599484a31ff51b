import { OptionsError } from '../errors.ts'
import { requireKnown } from '../known-options.ts'

/** How a ring places upstreams and keys. Gateways with other settings disagree on every owner. */
export interface HashRingOptions {
  /** Points of an upstream of weight 1: an integer from 1 to 10,000. Under 100 balance badly. @default 160 */
  readonly virtualNodes?: number | undefined
  /** @default 'xxh64' */
  readonly hash?: 'xxh64' | undefined
  /**
   * Seed of the hash, an unsigned 64-bit integer. A secret one, drawn from all 64 bits, keeps clients who choose
   * their own keys from aiming at one upstream. @default 0
   */
  readonly seed?: number | bigint | undefined
  /** Place a key that has a `{tag}` by the tag alone. @default false */
  readonly hashTags?: boolean | undefined
}

/** The options with their defaults in. */
export interface ResolvedRingOptions {
  readonly virtualNodes: number
  readonly hash: 'xxh64'
  readonly seed: bigint
  readonly hashTags: boolean
}

const MAX_VIRTUAL_NODES = 10_000

/** Fills in the defaults. Throws `OptionsError` for a value out of bounds and for an unknown name. */
export function resolveRingOptions(options: HashRingOptions): ResolvedRingOptions {
  requireKnown(options, ['virtualNodes', 'hash', 'seed', 'hashTags'])
  const { virtualNodes = 160, hash = 'xxh64', seed = 0, hashTags = false } = options
  if (!Number.isInteger(virtualNodes) || virtualNodes < 1 || virtualNodes > MAX_VIRTUAL_NODES) {
    throw mistake('virtualNodes', `an integer from 1 to ${MAX_VIRTUAL_NODES}`, virtualNodes)
  }
  if (hash !== 'xxh64') throw mistake('hash', "'xxh64'", hash)
  if (typeof hashTags !== 'boolean') throw mistake('hashTags', 'a boolean', hashTags)
  return Object.freeze({ virtualNodes, hash, seed: unsigned64(seed), hashTags })
}

function unsigned64(seed: number | bigint): bigint {
  const whole = typeof seed === 'bigint' || Number.isSafeInteger(seed) ? BigInt(seed) : -1n
  // The value stays out of the message: a seed may be a secret, and messages are logged.
  if (whole !== BigInt.asUintN(64, whole)) {
    throw new OptionsError(
      `Expected \`seed\` to be an integer from 0 to 2^64 - 1 (a bigint above 2^53), got another ${typeof seed}`,
    )
  }
  return whole
}

function mistake(name: string, expected: string, given: unknown): OptionsError {
  return new OptionsError(
    `Expected \`${name}\` to be ${expected}, got \`${String(given)}\` (${typeof given})`,
  )
}
