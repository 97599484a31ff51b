import xxhashWasm from 'xxhash-wasm'
import xxhashScript from 'xxhashjs'

/** A 64-bit hash of the UTF-8 of `text`; the seed is taken modulo 2^64. */
export type Hash64 = (text: string, seed: bigint) => bigint

/** `xxhashjs` also takes a seed as decimal digits, the only way to give it all 64 bits; its types say number. */
interface ScriptEngine {
  h64(text: string, seed: number | string): { toString(radix: number): string }
}
const script: ScriptEngine = xxhashScript

/**
 * XXH64 in plain JavaScript. Works at once and everywhere, some 50 times slower than the WebAssembly.
 * `xxhashjs` encodes lone surrogates in its own way, so it only ever sees well-formed text.
 */
export const xxh64Script: Hash64 = (text, seed) => {
  const digits = BigInt.asUintN(64, seed).toString()
  return BigInt(`0x${script.h64(text.toWellFormed(), digits).toString(16)}`)
}

/** Loads XXH64 in WebAssembly, whose encoder replaces lone surrogates by U+FFFD. Rejects where there is none. */
export const loadXxh64Wasm = async (): Promise<Hash64> => (await xxhashWasm()).h64

// The one variable that a whole process shares: both engines are the same pure function, so which of them
// answers can be seen in the time it takes and in nothing else.
let engine: Hash64 = xxh64Script

const loading = loadXxh64Wasm().then(
  (wasm) => {
    engine = wasm
  },
  () => {},
)

/**
 * XXH64 (github.com/Cyan4973/xxHash, doc/xxhash_spec.md) of the UTF-8 of `text`, by the fastest engine that is
 * loaded. Lone surrogates count as U+FFFD.
 */
export const xxh64: Hash64 = (text, seed) => engine(text, seed)

/** Resolves when the WebAssembly computes, or is known to be unavailable. Never rejects. */
export const xxh64Ready = (): Promise<void> => loading
