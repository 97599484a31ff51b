import { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { forwardedHeaders, isForwardedField } from '../../src/http/forwarded.ts'

const all = ['x-forwarded', 'forwarded', 'via'] as const

function requestFrom(
  peer: string | undefined,
  headers: Record<string, string>,
  encrypted = false,
): IncomingMessage {
  const socket = Object.defineProperty(new Socket(), 'remoteAddress', { value: peer })
  return Object.assign(new IncomingMessage(Object.assign(socket, { encrypted })), {
    headers,
    httpVersion: '1.1',
  })
}

const claims = {
  host: 'gateway:8080',
  'x-forwarded-for': '6.6.6.6',
  'x-forwarded-proto': 'https',
  'x-forwarded-host': 'shop.example',
  'x-forwarded-port': '8443',
  'x-forwarded-prefix': '/shop',
  forwarded: 'for=6.6.6.6',
  via: '1.0 edge',
}

test('what an untrusted peer claims is replaced; Via, which claims nothing, is added to', () => {
  const request = requestFrom('::ffff:203.0.113.7', claims)
  expect(forwardedHeaders(request, { trusted: false, headers: all, pseudonym: 'gateway' })).toEqual({
    'x-forwarded-for': '203.0.113.7',
    'x-forwarded-proto': 'http',
    'x-forwarded-host': 'gateway:8080',
    'x-forwarded-port': '8080',
    forwarded: 'for=203.0.113.7;proto=http;host="gateway:8080"',
    via: '1.0 edge, 1.1 gateway',
  })
})

test('what a trusted peer says is kept and added to', () => {
  const request = requestFrom('10.0.0.9', claims)
  expect(forwardedHeaders(request, { trusted: true, headers: all, pseudonym: 'gateway' })).toEqual({
    'x-forwarded-for': '6.6.6.6, 10.0.0.9',
    'x-forwarded-proto': 'https',
    'x-forwarded-host': 'shop.example',
    'x-forwarded-port': '8443',
    'x-forwarded-prefix': '/shop',
    forwarded: 'for=6.6.6.6, for=10.0.0.9;proto=http;host="gateway:8080"',
    via: '1.0 edge, 1.1 gateway',
  })
})

test('headers that the gateway does not write are relayed under trust and dropped without', () => {
  const { host: _, ...received } = claims
  const request = requestFrom('10.0.0.9', claims)
  expect(forwardedHeaders(request, { trusted: true, headers: [], pseudonym: 'gateway' })).toEqual(received)
  expect(forwardedHeaders(request, { trusted: false, headers: [], pseudonym: 'gateway' })).toEqual({
    via: '1.0 edge',
  })
})

test.each([
  [{ host: 'shop' }, false, 'http', '80'],
  [{ host: 'shop' }, true, 'https', '443'],
  [{ host: '[2001:db8::1]:81' }, true, 'https', '81'],
  [{ host: 'shop', 'x-forwarded-proto': 'https, http' }, false, 'https, http', '443'],
  [{ host: 'a:1', 'x-forwarded-host': 'shop' }, false, 'http', '80'],
  [{}, false, 'http', '80'],
])('%j over TLS %s: %s, port %s', (headers, encrypted, proto, port) => {
  const request = requestFrom('10.0.0.9', headers as Record<string, string>, encrypted)
  expect(forwardedHeaders(request, { trusted: true, headers: all, pseudonym: 'gateway' })).toMatchObject({
    'x-forwarded-proto': proto,
    'x-forwarded-port': port,
  })
})

test('IPv6 peers are in brackets where RFC 7239 §6 asks for it; a Unix socket has no address', () => {
  const write = (peer: string | undefined) =>
    forwardedHeaders(requestFrom(peer, {}), {
      trusted: false,
      headers: ['x-forwarded', 'forwarded'],
      pseudonym: 'a',
    })
  expect(write('2001:DB8::1')).toMatchObject({
    'x-forwarded-for': '2001:db8::1',
    forwarded: 'for="[2001:db8::1]";proto=http',
  })
  expect(write(undefined)).toEqual({
    'x-forwarded-proto': 'http',
    'x-forwarded-port': '80',
    forwarded: 'for=unknown;proto=http',
  })
})

test('nothing that an untrusted client says comes through, and the request stays as it is', () => {
  const name = fc.constantFrom('x-forwarded-for', 'x-forwarded-proto', 'x-forwarded-any', 'forwarded')
  fc.assert(
    fc.property(fc.dictionary(name, fc.constant('forged')), (headers) => {
      const request = requestFrom('203.0.113.7', { ...headers, host: 'shop' })
      const written = forwardedHeaders(request, { trusted: false, headers: all, pseudonym: 'gateway' })
      expect(JSON.stringify(written)).not.toContain('forged')
      expect(Object.keys(written).every(isForwardedField)).toBe(true)
      expect(request.headers).toEqual({ ...headers, host: 'shop' })
    }),
  )
})
