import { once } from 'node:events'
import { createServer, IncomingMessage } from 'node:http'
import { type AddressInfo, connect, Socket } from 'node:net'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { checkFraming, hasBody } from '../../src/http/framing.ts'

const limits = { requestHeaderBytes: 16_384 }

function requestWith(rawHeaders: readonly string[], httpVersion = '1.1'): IncomingMessage {
  return Object.assign(new IncomingMessage(new Socket()), { rawHeaders, httpVersion })
}

const check = (...rawHeaders: readonly string[]) =>
  checkFraming(requestWith(['Host', 'shop', ...rawHeaders]), limits)

test.each([
  [400, ['Content-Length', '5', 'Transfer-Encoding', 'chunked']],
  [400, ['Content-Length', '5', 'content-length', '6']],
  [400, ['Content-Length', '5', 'content-length', '5']],
  [400, ['Content-Length', '5, 5']],
  [400, ['Content-Length', '5,6']],
  [400, ['Content-Length', '+5']],
  [400, ['Content-Length', '-5']],
  [400, ['Content-Length', '0x5']],
  [400, ['Content-Length', '5 ']],
  [400, ['Content-Length', '']],
  [400, ['Content-Length', '9007199254740992']],
  [400, ['Transfer-Encoding', 'identity']],
  [400, ['Transfer-Encoding', '']],
  [400, ['Transfer-Encoding', 'xchunked']],
  [400, ['Transfer-Encoding', 'chunked\u00a0']],
  [400, ['Transfer-Encoding', 'chunked\u000b']],
  [400, ['Transfer-Encoding', 'chunked, gzip']],
  [400, ['Transfer-Encoding', 'chunked, chunked']],
  [400, ['Transfer-Encoding', 'chunked', 'Transfer-Encoding', 'chunked']],
  [501, ['Transfer-Encoding', 'gzip, chunked']],
  [501, ['Transfer-Encoding', 'gzip', 'Transfer-Encoding', 'Chunked']],
  [400, ['Host', 'shop']],
  [undefined, []],
  [undefined, ['Content-Length', '0']],
  [undefined, ['Content-Length', '9007199254740991']],
  [undefined, ['Transfer-Encoding', 'chunked']],
  [undefined, ['TRANSFER-ENCODING', 'Chunked']],
  [undefined, ['X', 'Content-Length', 'Y', 'Transfer-Encoding']],
])('%s for %j', (status, rawHeaders) => {
  expect(check(...rawHeaders)?.status).toBe(status)
})

test('HTTP/1.0 may leave Host out but has no transfer codings', () => {
  expect(checkFraming(requestWith([], '1.0'), limits)).toBeUndefined()
  expect(checkFraming(requestWith(['Transfer-Encoding', 'chunked'], '1.0'), limits)?.status).toBe(400)
  expect(checkFraming(requestWith(['Host', 'a', 'Host', 'a'], '1.0'), limits)?.status).toBe(400)
  expect(checkFraming(requestWith([], '1.1'), limits)?.status).toBe(400)
})

test.each([
  ['shop.example:8080', true],
  ['[2001:db8::1]:80', true],
  ['192.0.2.1', true],
  ['under_score', true],
  ['', true],
  ['a b', false],
  ['a/b', false],
  ['user@a', false],
  ['a:b', false],
  ['::1', false],
  ['bücher', false],
])('Host %j is valid: %s', (host, valid) => {
  expect(checkFraming(requestWith(['Host', host]), limits) === undefined).toBe(valid)
})

test('header bytes are counted as they came, and the limit itself is allowed', () => {
  const request = requestWith(['Host', 'a', 'X-Long', 'x'.repeat(10)])
  const bytes = 'Host: a\r\nX-Long: xxxxxxxxxx\r\n'.length
  expect(checkFraming(request, { requestHeaderBytes: bytes })).toBeUndefined()
  expect(checkFraming(request, { requestHeaderBytes: bytes - 1 })).toEqual({
    status: 431,
    message: `Expected at most ${bytes - 1} bytes of headers`,
  })
})

test.each([
  [{}, false],
  [{ 'content-length': '0' }, false],
  [{ 'content-length': '1' }, true],
  [{ 'transfer-encoding': 'chunked' }, true],
])('%j announces a body: %s', (headers, expected) => {
  expect(hasBody(Object.assign(requestWith([]), { headers }))).toBe(expected)
})

test('both lengths are refused also where the parser lets them through (golang/go#16875, cloudflare/pingora#734)', async () => {
  const server = createServer({ insecureHTTPParser: true }, (request, response) => {
    response.end(String(checkFraming(request, limits)?.status))
  }).listen(0, '127.0.0.1')
  try {
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const client = connect(port, '127.0.0.1')
    client.write(
      'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n',
    )
    let answer = ''
    for await (const chunk of client) answer += chunk
    expect(answer).toMatch(/^HTTP\/1\.1 200 OK/)
    expect(answer).toMatch(/400/)
  } finally {
    server.close()
  }
})

test('whatever the headers say, a request that passes has one reading', () => {
  const name = fc.constantFrom('Host', 'Content-Length', 'content-length', 'Transfer-Encoding', 'X')
  const value = fc.oneof(fc.constantFrom('5', '6', 'chunked', 'gzip', 'a', ''), fc.string({ unit: 'binary' }))
  fc.assert(
    fc.property(fc.array(fc.tuple(name, value)), (fields) => {
      if (check(...fields.flat()) !== undefined) return
      const all = (wanted: string) => fields.filter(([field]) => field.toLowerCase() === wanted)
      const lengths = all('content-length')
      const codings = all('transfer-encoding')
      expect(lengths.length + codings.length).toBeLessThanOrEqual(1)
      expect(lengths.every(([, length]) => /^[0-9]+$/.test(length))).toBe(true)
      expect(codings.every(([, coding]) => coding.toLowerCase() === 'chunked')).toBe(true)
    }),
  )
})
