import fc from 'fast-check'
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { type Hash64, loadXxh64Wasm, xxh64, xxh64Ready, xxh64Script } from '../../src/ring/xxh64.ts'

const ANY_TEXT = fc
  .array(fc.oneof(fc.integer({ min: 0, max: 0xffff }), fc.integer({ min: 0xd800, max: 0xdfff })), {
    maxLength: 120,
  })
  .map((units) => String.fromCharCode(...units))
const ANY_SEED = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n })

describe('xxh64', () => {
  let wasm: Hash64
  beforeAll(async () => {
    wasm = await loadXxh64Wasm()
  })
  afterEach(() => {
    vi.unstubAllGlobals()
    vi.resetModules()
  })

  // Published values: xxhsum's self-test and the documentation of python-xxhash.
  it.each([
    ['', 0n, 0xef46db3751d8e999n],
    ['a', 0n, 0xd24ec4f1a98c6e5bn],
    ['abc', 0n, 0x44bc2cf5ad770999n],
    ['Nobody inspects the spammish repetition', 0n, 0xfbcea83c8a378bf1n],
    ['xxhash', 20141025n, 0xb559b98d844e0635n],
  ])('gives the published value of %j under seed %s', (text, seed, expected) => {
    expect(xxh64Script(text, seed)).toBe(expected)
    expect(wasm(text, seed)).toBe(expected)
  })

  it('is the same function in both engines, for any UTF-16 text and any seed', () => {
    fc.assert(
      fc.property(ANY_TEXT, ANY_SEED, (text, seed) => {
        expect(xxh64Script(text, seed)).toBe(wasm(text, seed))
      }),
      { numRuns: 1_000 },
    )
  })

  it.each(['', '\u0000', '\ud800', 'a\udc00', '\udc00\ud800', '🛒', '長'.repeat(5_000), 'x'.repeat(200_000)])(
    'is the same function in both engines (case %#)',
    (text) => {
      for (const seed of [0n, 1n, 2n ** 32n, 2n ** 63n, 2n ** 64n - 1n]) {
        expect(xxh64Script(text, seed)).toBe(wasm(text, seed))
      }
    },
  )

  it('counts a lone surrogate as U+FFFD', () => {
    for (const engine of [xxh64Script, wasm, xxh64]) expect(engine('a\ud800', 3n)).toBe(engine('a\ufffd', 3n))
  })

  it('answers at once and keeps its answers when the WebAssembly takes over', async () => {
    const fresh = await import('../../src/ring/xxh64.ts')
    const before = fresh.xxh64('user-1', 9n)
    await fresh.xxh64Ready()
    expect(fresh.xxh64('user-1', 9n)).toBe(before)
    await expect(xxh64Ready()).resolves.toBeUndefined()
  })

  it('computes without WebAssembly, and is ready all the same', async () => {
    vi.resetModules()
    vi.stubGlobal('WebAssembly', undefined)
    const without = await import('../../src/ring/xxh64.ts')
    await expect(without.xxh64Ready()).resolves.toBeUndefined()
    await expect(without.loadXxh64Wasm()).rejects.toThrow()
    expect(without.xxh64('abc', 0n)).toBe(0x44bc2cf5ad770999n)
  })
})
