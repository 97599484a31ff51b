import fc from 'fast-check'
import { expect, test } from 'vitest'
import { OptionsError } from '../../src/errors.ts'
import { key, toKeySource } from '../../src/key/key.ts'
import type { KeySource } from '../../src/key/key-source.ts'
import { factsWith, requestWith } from './request.ts'

const read = (source: KeySource, headers: Record<string, string>) =>
  source.extract(requestWith({ headers }), factsWith())

test('a chain goes on where a key is missing or blank, and its key does not tell where it was found', () => {
  const chain = key.chain(key.header('x-user-id'), 'cookie:sid', key.ip())
  expect(read(chain, { 'x-user-id': '7', cookie: 'sid=8' })).toBe('7')
  expect(read(chain, { 'x-user-id': ' ', cookie: 'sid=7' })).toBe('7')
  expect(read(chain, { cookie: 'sid=' })).toBe('192.0.2.1')
  expect(read(key.chain(key.header('a'), key.header('b')), {})).toBeUndefined()
})

test('a composite of two headers (envoyproxy/gateway#7186, envoyproxy/envoy#1422)', () => {
  const both = key.composite(key.header('a'), key.header('b'))
  expect(read(both, { a: 'ab', b: 'c' })).toBe('2:ab1:c')
  expect(read(both, { a: 'a', b: 'bc' })).toBe('1:a2:bc')
  expect(read(both, { a: 'ab' })).toBeUndefined()
  expect(read(both, { a: ' ', b: 'c' })).toBeUndefined()
})

test('different parts never give one key', () => {
  const present = fc
    .string({ unit: fc.constantFrom('0', '1', '2', ':', 'a', '😀') })
    .filter((text) => text !== '')
  const parts = fc.array(present, { minLength: 2, maxLength: 4 })
  const combined = (texts: readonly string[]) =>
    key.composite(...texts.map((text) => key.from(() => text))).extract(requestWith({}), factsWith())
  fc.assert(
    fc.property(parts, parts, (left, right) => {
      expect(combined(left) === combined(right)).toBe(JSON.stringify(left) === JSON.stringify(right))
    }),
  )
  fc.assert(
    // The same characters cut at two places: where a joined key would collide.
    fc.property(present, present, present, (a, b, c) => {
      expect(combined([a + b, c])).not.toBe(combined([a, b + c]))
    }),
  )
})

test('a composite is not the composite of its parts', () => {
  const [a, b, c] = [key.header('a'), key.header('b'), key.header('c')]
  const headers = { a: '1', b: '2', c: '3' }
  const nested = key.composite(key.composite(a, b), c)
  expect(read(nested, headers)).not.toBe(read(key.composite(a, b, c), headers))
  expect(nested.description).toBe('(header:a+header:b)+header:c')
})

test('upgrades: a chain needs one part that works, a composite all; both wait for the largest body', () => {
  const small = key.body('/a', { limit: 10 })
  const large = key.body('/b', { limit: 20 })
  expect(key.chain(small, key.ip(), large)).toMatchObject({ worksForUpgrade: true, bodyLimit: 20 })
  expect(key.chain(small, large)).toMatchObject({ worksForUpgrade: false })
  expect(key.composite(large, key.ip(), small)).toMatchObject({ worksForUpgrade: false, bodyLimit: 20 })
  expect(key.composite(key.path(), key.ip())).toMatchObject({ worksForUpgrade: true, bodyLimit: 0 })
})

test('combinations of too few sources are refused', () => {
  expect(() => key.chain()).toThrow(/`key\.chain` to get at least one source, got \[\]/)
  expect(() => key.composite(key.ip())).toThrow(/`key\.composite` to get at least two sources/)
  expect(key.chain(key.ip()).description).toBe('ip')
})

test.each([
  ['7', '7'],
  [7, '7'],
  [0, '0'],
  [7n, '7'],
  [['7', '8'], '7, 8'],
  [['7', 8], undefined],
  [[], undefined],
  ['', undefined],
  [' ', undefined],
  [undefined, undefined],
  [null, undefined],
  [false, undefined],
  [{}, undefined],
  [Symbol('7'), undefined],
])('a function that gives %s gives the key %s', (value, expected) => {
  const source = Reflect.apply(key.from, undefined, [() => value])
  expect(source.extract(requestWith({}), factsWith())).toBe(expected)
})

test('what a function throws comes through, also through a chain; a promise is a mistake', () => {
  const mistake = new TypeError('no user')
  const throwing = key.from(() => {
    throw mistake
  })
  expect(() => read(key.chain(throwing, key.ip()), {})).toThrow(mistake)
  const asynchronous = Reflect.apply(key.from, undefined, [async () => '7'])
  expect(() => read(asynchronous, {})).toThrow(/got a promise/)
})

test('a source may be given as a source, a string or a function', () => {
  const source = key.ip()
  expect(toKeySource(source)).toBe(source)
  expect(toKeySource('header:a').description).toBe('header:a')
  expect(
    read(
      toKeySource((request) => request.headers.host),
      { host: 'shop' },
    ),
  ).toBe('shop')
})

test.each([[undefined], [null], [7], [{}], [{ extract: () => 'a' }], [[]]])('%j is not a source', (input) => {
  const convert = () => Reflect.apply(toKeySource, undefined, [input])
  expect(convert).toThrow(OptionsError)
  expect(convert).toThrow(/Expected `key` to be a key source, .*, got /)
  expect(() => Reflect.apply(key.from, undefined, [input])).toThrow(OptionsError)
})
