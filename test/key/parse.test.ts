import fc from 'fast-check'
import { expect, test } from 'vitest'
import { OptionsError } from '../../src/errors.ts'
import { key } from '../../src/key/key.ts'
import type { KeySource } from '../../src/key/key-source.ts'
import { parseKey } from '../../src/key/parse.ts'
import { factsWith, requestWith } from './request.ts'

const [a, b, c] = [key.header('a'), key.cookie('b'), key.ip()]

test.each([
  ['header:x-user-id', key.header('x-user-id')],
  ['cookie:sid', key.cookie('sid')],
  ['query:user', key.query('user')],
  ['path', key.path()],
  ['path:1', key.pathSegment(1)],
  ['param:id', key.param('id')],
  ['ip', key.ip()],
  ['body:/user/id', key.body('/user/id')],
  ['body:', key.body('')],
  ['body:/prompt:first=256', key.body('/prompt', { firstCharacters: 256 })],
  ['body:/prompt:limit=10', key.body('/prompt', { limit: 10 })],
  ['body:/prompt:first=256:limit=10', key.body('/prompt', { firstCharacters: 256, limit: 10 })],
  ['query:a%2Cb%2B%3A%28%29%25%20c', key.query('a,b+:()% c')],
  ['header:a,cookie:b,ip', key.chain(a, b, c)],
  ['header:a+cookie:b', key.composite(a, b)],
  ['header:a+cookie:b,ip', key.chain(key.composite(a, b), c)],
  ['(header:a,cookie:b)+ip', key.composite(key.chain(a, b), c)],
  [
    '((header:a+cookie:b)+ip)+path,ip',
    key.chain(key.composite(key.composite(key.composite(a, b), c), key.path()), c),
  ],
])('%s', (text, expected) => {
  const { extract: _, ...parsed } = parseKey(text)
  expect(expected).toMatchObject(parsed)
  expect(parsed.description).toBe(text)
})

test('spaces around sources and needless brackets do not count', () => {
  expect(parseKey(' header:a , ( cookie:b + ip ) ').description).toBe('header:a,cookie:b+ip')
})

test.each([
  ['heder:a', /a kind out of header, .*did you mean header\?.*got 'heder:a'/],
  ['cooky:a', /did you mean cookie\?/],
  ['constructor', /a kind out of/],
  ['', /a kind out of/],
  ['header:a,,ip', /a kind out of/],
  ['header:a+', /a kind out of/],
  ['header', /the form header:<name>/],
  ['header:', /the form header:<name>/],
  ['header:a:b', /the form header:<name> \(%3A for a colon\), got 'header:a:b'/],
  ['header:a b', /`key\.header` to get a header name, got 'a b'/],
  ['query:100%', /%25 for a percent sign/],
  ['path:', /path:<position from 1>/],
  ['path:0', /path:<position from 1>/],
  ['path:1:2', /path:<position from 1>/],
  ['path:99999999999999999999', /`key\.pathSegment`/],
  ['ip:1', /the form ip/],
  ['body', /the form body:<JSON pointer>/],
  ['body:/a:256', /the form body:<JSON pointer>/],
  ['body:/a:first=', /the form body:<JSON pointer>/],
  ['body:/a:limit=1:first=1', /the form body:<JSON pointer>/],
  ['body:/a:first=1:', /the form body:<JSON pointer>/],
  ['body:/a:first=0', /`key\.body` to get firstCharacters/],
  ['body:a', /RFC 6901 JSON pointer/],
  ['(ip', /as many closing as opening brackets/],
  ['ip)', /as many closing as opening brackets/],
  ['(ip)(ip)', /brackets/],
  ['query:f(x)', /%28 and %29 in a name/],
])('%s is refused', (text, message) => {
  expect(() => parseKey(text)).toThrow(OptionsError)
  expect(() => parseKey(text)).toThrow(message)
})

const name = fc.string({ unit: 'binary', minLength: 1 })
const visible = fc.string({ unit: fc.constantFrom(..."aZ09!#$%&'*+.^_`|~-"), minLength: 1 })
const { source } = fc.letrec<{ source: KeySource }>((tie) => ({
  source: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom(key.path(), key.ip()),
    visible.map(key.header),
    visible.map(key.cookie),
    name.map(key.query),
    name.map(key.param),
    fc.integer({ min: 1, max: 3 }).map(key.pathSegment),
    fc
      .tuple(
        fc.array(name),
        fc.record(
          { limit: fc.integer({ min: 1 }), firstCharacters: fc.integer({ min: 1 }) },
          { requiredKeys: [] },
        ),
      )
      .map(([tokens, options]) =>
        key.body(
          tokens.map((token) => `/${token.replaceAll('~', '~0').replaceAll('/', '~1')}`).join(''),
          options,
        ),
      ),
    fc.array(tie('source'), { minLength: 1, maxLength: 3 }).map((parts) => key.chain(...parts)),
    fc.array(tie('source'), { minLength: 2, maxLength: 3 }).map((parts) => key.composite(...parts)),
  ),
}))

test('a description parses to the same source', () => {
  const request = requestWith({
    url: '/a/b?a=1',
    headers: { a: '2', '!': '3', cookie: 'a=4; !=5' },
    params: { a: '6', ' ': '7' },
  })
  const facts = factsWith({ json: { '': 'x', a: 8 } })
  fc.assert(
    fc.property(source, (original) => {
      const { extract, ...parsed } = parseKey(original.description)
      expect(original).toMatchObject(parsed)
      expect(extract(request, facts)).toBe(original.extract(request, facts))
    }),
    { numRuns: 1000 },
  )
})

test('any other text is an OptionsError and nothing worse', () => {
  const words = fc.array(
    fc.constantFrom(
      ...['header:', 'body:', 'path', 'ip', ':', ',', '+', '(', ')', '%', '%2C', 'a', '/', ' ', '1'],
    ),
  )
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string({ unit: 'binary' }),
        words.map((parts) => parts.join('')),
      ),
      (text) => {
        try {
          const { description } = parseKey(text)
          expect(parseKey(description).description).toBe(description)
        } catch (error) {
          expect(error).toBeInstanceOf(OptionsError)
        }
      },
    ),
  )
})
