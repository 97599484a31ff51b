import { createServer, type IncomingMessage } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { OptionsError } from '../../src/errors.ts'
import { key } from '../../src/key/key.ts'
import type { KeyRequest, KeySource } from '../../src/key/key-source.ts'
import { factsWith, requestWith } from './request.ts'

const read = (source: KeySource, fields: Partial<KeyRequest>) =>
  source.extract(requestWith(fields), factsWith())

test('a header is found whatever its case, and trimmed', () => {
  expect(read(key.header('X-User-Id'), { headers: { 'x-user-id': ' 7\t' } })).toBe('7')
  expect(key.header('X-User-Id').description).toBe('header:x-user-id')
})

test('repeated headers count as Node joins them, and one named in Connection is read', async () => {
  const seen = new Promise<IncomingMessage>((resolve) => {
    const server = createServer((request, response) => {
      resolve(request)
      response.end()
      server.close()
    }).listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo
      connect(port, '127.0.0.1')
        .on('error', () => {})
        .end(
          'GET / HTTP/1.1\r\nHost: a\r\nConnection: close, x-user-id\r\nX-User-Id: 7\r\nX-User-ID: 8\r\n\r\n',
        )
    })
  })
  expect(key.header('x-user-id').extract(await seen, factsWith())).toBe('7, 8')
})

test('a header that only every object has is missing', () => {
  for (const name of ['constructor', '__proto__', 'tostring']) {
    expect(read(key.header(name), { headers: {} })).toBeUndefined()
  }
})

test.each([
  ['sid=a%20b', 'a b'],
  ['other=1; sid=first; sid=second', 'first'],
  ['sid=%E0%A4%A', '%E0%A4%A'],
  ['sid=', undefined],
  ['sid=%20%09', undefined],
  ['sid', undefined],
  ['sidx=1', undefined],
])('cookie %s gives %s', (header, expected) => {
  expect(read(key.cookie('sid'), { headers: { cookie: header } })).toBe(expected)
})

test('without any cookie the key is missing', () => {
  expect(read(key.cookie('sid'), { headers: {} })).toBeUndefined()
  expect(read(key.cookie('__proto__'), { headers: { cookie: 'a=b' } })).toBeUndefined()
})

test.each([
  ['/a?user=7', '7'],
  ['/a?x=1&user=7&user=8', '7'],
  ['/a?user=a+b%20c', 'a b c'],
  ['/a?user=%E0%A4%A', '\ufffd%A'],
  ['/a?user=', undefined],
  ['/a?user=%20', undefined],
  ['/a', undefined],
  ['/user=7', undefined],
  ['http://host/a?user=7', '7'],
  ['http://host?user=7', '7'],
  ['/a?b?user=7', undefined],
])('query user of %s is %s', (url, expected) => {
  expect(read(key.query('user'), { url })).toBe(expected)
})

test.each([
  ['/a/b?c=/d', '/a/b'],
  ['/', '/'],
  ['//host/path', '//host/path'],
  ['/a%2Fb/%', '/a%2Fb/%'],
  ['http://host:8080/a?b', '/a'],
  ['HTTPS://host', '/'],
  ['/redirect/http://host/a', '/redirect/http://host/a'],
  ['*', '*'],
])('the path of %s is %s', (url, expected) => {
  expect(read(key.path(), { url })).toBe(expected)
})

test('the target is the one that the client sent, not what a router left of it', () => {
  const mounted = { originalUrl: '/api/users/7?user=8', url: '/users/7' }
  expect(read(key.path(), mounted)).toBe('/api/users/7')
  expect(read(key.pathSegment(1), mounted)).toBe('api')
  expect(read(key.query('user'), mounted)).toBe('8')
})

test('segments are counted from slash to slash and not decoded', () => {
  const at = (position: number, url: string) => read(key.pathSegment(position), { url })
  expect(at(1, '/a/b')).toBe('a')
  expect(at(2, '/a/b')).toBe('b')
  expect(at(3, '/a/b')).toBeUndefined()
  expect(at(2, '/a//c')).toBeUndefined()
  expect(at(3, '/a//c')).toBe('c')
  expect(at(1, '/a%2Fb')).toBe('a%2Fb')
  expect(at(1, '/')).toBeUndefined()
  expect(at(1, '*')).toBeUndefined()
})

test('a route parameter may be a wildcard, and only its own name counts', () => {
  expect(read(key.param('id'), { params: { id: '7' } })).toBe('7')
  expect(read(key.param('rest'), { params: { rest: ['a', 'b'] } })).toBe('a')
  expect(read(key.param('rest'), { params: { rest: [] } })).toBeUndefined()
  expect(read(key.param('constructor'), { params: {} })).toBeUndefined()
  expect(read(key.param('id'), {})).toBeUndefined()
  expect(key.param('id').worksForUpgrade).toBe(false)
})

test('ip is what the trust setting says', () => {
  expect(key.ip().extract(requestWith({}), factsWith({ address: '203.0.113.7' }))).toBe('203.0.113.7')
})

test('empty and blank headers count as missing (Kong/kong#14251, apache/apisix#4276, caddyserver/caddy#2126)', () => {
  for (const value of [undefined, '', ' ', '\t \u00a0']) {
    expect(read(key.header('x-user-id'), { headers: { 'x-user-id': value } })).toBeUndefined()
  }
})

test('everything but a route parameter works for an upgrade, and none of these waits for a body', () => {
  for (const source of [
    key.header('a'),
    key.cookie('a'),
    key.query('a'),
    key.path(),
    key.pathSegment(1),
    key.ip(),
  ]) {
    expect(source).toMatchObject({ worksForUpgrade: true, bodyLimit: 0 })
    expect(Object.isFrozen(source)).toBe(true)
  }
})

test.each([
  ['header', () => key.header('x user')],
  ['header', () => key.header('')],
  ['header', () => Reflect.apply(key.header, undefined, [])],
  ['cookie', () => key.cookie('a=b')],
  ['cookie', () => key.cookie('a;b')],
  ['query', () => key.query('')],
  ['param', () => key.param('')],
  ['pathSegment', () => key.pathSegment(0)],
  ['pathSegment', () => key.pathSegment(1.5)],
])('key.%s refuses arguments that it cannot use', (builder, build) => {
  expect(build).toThrow(OptionsError)
  expect(build).toThrow(new RegExp(`Expected \`key\\.${builder}\` to get .*, got `))
})

test('no head makes a source throw, and a key is never blank', () => {
  const text = fc.string({ unit: 'binary' })
  const sources = [
    key.header('a'),
    key.cookie('a'),
    key.query('a'),
    key.path(),
    key.pathSegment(2),
    key.param('a'),
  ]
  fc.assert(
    fc.property(text, text, text, fc.oneof(text, fc.array(text)), (a, cookie, url, parameter) => {
      for (const source of sources) {
        for (const prefix of ['', 'a=', '?a=', 'http://']) {
          const found = read(source, {
            headers: { a, cookie: prefix + cookie },
            url: prefix + url,
            params: { a: parameter },
          })
          expect(found === undefined || found.trim() !== '').toBe(true)
        }
      }
    }),
  )
})
