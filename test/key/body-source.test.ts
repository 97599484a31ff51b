import fc from 'fast-check'
import { expect, test } from 'vitest'
import { OptionsError } from '../../src/errors.ts'
import { key } from '../../src/key/key.ts'
import { factsWith, requestWith } from './request.ts'

const request = requestWith({})
const read = (source: ReturnType<typeof key.body>, json: unknown) =>
  source.extract(request, factsWith({ json }))

test.each([
  ['/user/id', { user: { id: 'u7' } }, 'u7'],
  ['/users/1', { users: ['a', 'b'] }, 'b'],
  ['/users/01', { users: ['a', 'b'] }, undefined],
  ['/users/-', { users: ['a', 'b'] }, undefined],
  ['/users/length', { users: ['a', 'b'] }, undefined],
  ['/name/0', { name: 'text' }, undefined],
  ['/n', { n: 0 }, '0'],
  ['/n', { n: false }, 'false'],
  ['/n', { n: null }, undefined],
  ['/n', { n: {} }, undefined],
  ['/n', { n: ['a'] }, undefined],
  ['/n', { n: ' \n' }, undefined],
  ['/n', { n: ' a ' }, ' a '],
  ['/n', undefined, undefined],
  ['/n', null, undefined],
])('%s in %j is %s', (pointer, json, expected) => {
  expect(read(key.body(pointer), json)).toBe(expected)
})

test('the examples of RFC 6901 §5', () => {
  const document = JSON.parse(
    '{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\\\j":5,"k\\"l":6," ":7,"m~n":8,"~1":9}',
  )
  const values = ['/foo/0', '/', '/a~1b', '/c%d', '/e^f', '/g|h', '/i\\j', '/k"l', '/ ', '/m~0n', '/~01']
  expect(values.map((pointer) => read(key.body(pointer), document))).toEqual([
    'bar',
    ...['0', '1', '2', '3', '4', '5', '6', '7', '8', '9'],
  ])
  expect(read(key.body(''), 'the whole document')).toBe('the whole document')
})

test('members that every object has do not resolve, those that the client sent do', () => {
  for (const name of [
    '__proto__',
    'constructor',
    'toString',
    '__proto__/constructor/name',
    'constructor/name',
  ]) {
    expect(read(key.body(`/${name}`), {})).toBeUndefined()
  }
  expect(read(key.body('/__proto__'), JSON.parse('{"__proto__":"sent"}'))).toBe('sent')
})

test('the first characters are counted in code points and never cut one in two', () => {
  const first = (firstCharacters: number, text: string) =>
    read(key.body('/t', { firstCharacters }), { t: text })
  expect(first(3, 'abcd')).toBe('abc')
  expect(first(3, 'ab')).toBe('ab')
  expect(first(2, 'a😀b')).toBe('a😀')
  expect(first(1, '😀😁')).toBe('😀')
  expect(first(2, '1234')).toBe('12')
  expect(first(2, '  a')).toBeUndefined()
  expect(read(key.body('/t', { firstCharacters: 2 }), { t: 1234 })).toBe('12')
})

test('as many code points as asked for, for any text', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.integer({ min: 1, max: 20 }), (text, firstCharacters) => {
      const cut = Array.from(text).slice(0, firstCharacters).join('')
      expect(read(key.body('', { firstCharacters }), text)).toBe(cut.trim() === '' ? undefined : cut)
    }),
  )
})

test('waits for 64 KiB unless told otherwise, and cannot work for an upgrade', () => {
  expect(key.body('/a')).toMatchObject({ description: 'body:/a', bodyLimit: 65_536, worksForUpgrade: false })
  expect(key.body('/a', { limit: 10, firstCharacters: 5 })).toMatchObject({
    description: 'body:/a:first=5:limit=10',
    bodyLimit: 10,
  })
})

test.each([
  ['user', {}],
  ['/a~2', {}],
  ['/a~', {}],
  [7, {}],
  ['/a', { limit: 0 }],
  ['/a', { limit: Number.POSITIVE_INFINITY }],
  ['/a', { firstCharacters: 0.5 }],
  ['/a', { first: 5 }],
])('refuses %j with %j', (...given) => {
  const build = () => Reflect.apply(key.body, undefined, given)
  expect(build).toThrow(OptionsError)
  expect(build).toThrow(/Expected `key\.body` to get .*, got /)
})

test('no document makes it throw', () => {
  const pointer = fc
    .array(fc.constantFrom('/', 'a', '0', '~0', '~1', 'length', '__proto__'))
    .map((parts) => `/${parts.join('')}`)
  fc.assert(
    fc.property(pointer, fc.jsonValue({ stringUnit: 'binary' }), (path, json) => {
      const found = read(key.body(path), json)
      expect(found === undefined || found.trim() !== '').toBe(true)
    }),
  )
})
