import { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import { expect, test } from 'vitest'
import { forwardableRequestHeaders, forwardableResponseHeaders } from '../../src/http/header-fields.ts'

const options = {
  protectedNames: new Set(['x-user-id']),
  gatewayNames: new Set(['x-topology', 'x-attempt']),
}

const forwardable = (headers: IncomingMessage['headers']) => ({
  ...forwardableRequestHeaders(Object.assign(new IncomingMessage(new Socket()), { headers }), options),
})

test('hop-by-hop headers and those that Connection names stay behind', () => {
  expect(
    forwardable({
      host: 'shop',
      connection: 'Keep-Alive, X-Secret , upgrade',
      'x-secret': '1',
      'x-other': '2',
      'keep-alive': 'timeout=5',
      'proxy-connection': 'keep-alive',
      'proxy-authenticate': 'Basic',
      'proxy-authorization': 'Basic YQ==',
      'transfer-encoding': 'chunked',
      upgrade: 'h2c',
      'http2-settings': 'AAMAAABk',
      expect: '100-continue',
      accept: '*/*',
    }),
  ).toEqual({ host: 'shop', 'x-other': '2', accept: '*/*' })
})

test('a client cannot strip the key, nor what is meant for all recipients (golang/go#16875)', () => {
  const headers = {
    host: 'shop',
    'x-user-id': '7',
    authorization: 'Bearer a',
    cookie: 'sid=1',
    'content-length': '3',
    'content-type': 'text/plain',
  }
  const connection = `close, ${Object.keys(headers).join(', ')}`
  expect(forwardable({ ...headers, connection })).toEqual(headers)
})

test('a client cannot speak for the gateway, nor for the hops before it', () => {
  expect(
    forwardable({
      'x-topology': 'forged',
      'x-attempt': '9',
      'x-forwarded-for': '6.6.6.6',
      'x-forwarded-prefix': '/a',
      forwarded: 'for=6.6.6.6',
      via: '1.1 a',
      'x-forward': 'kept',
    }),
  ).toEqual({ 'x-forward': 'kept' })
})

test('TE keeps trailers and nothing else', () => {
  expect(forwardable({ connection: 'te', te: 'gzip;q=0.5, Trailers', trailer: 'x-sum' })).toEqual({
    te: 'trailers',
    trailer: 'x-sum',
  })
  expect(forwardable({ te: 'gzip' })).toEqual({})
})

test('the result is no part of the request', () => {
  const headers = { accept: 'a', 'set-cookie': ['a', 'b'] }
  const request = Object.assign(new IncomingMessage(new Socket()), { headers })
  const kept = forwardableRequestHeaders(request, options)
  expect({ ...kept }).toEqual(headers)
  kept.accept = 'b'
  expect(request.headers.accept).toBe('a')
})

test('an answer keeps order, case and every value', () => {
  const rawHeaders = ['Date', 'now', 'Set-Cookie', 'a=1', 'X-b', '1', 'set-cookie', 'b=2', 'Trailer', 'x-sum']
  expect(forwardableResponseHeaders(rawHeaders, new Set())).toEqual(rawHeaders)
})

test('an answer loses hop-by-hop headers, those its Connection names, and the gateway-only ones', () => {
  const rawHeaders = [
    'Connection',
    'close, X-Internal',
    'Keep-Alive',
    'timeout=5',
    'X-Internal',
    '1',
    'connection',
    'x-more',
  ]
  const more = [
    'X-More',
    '2',
    'Transfer-Encoding',
    'chunked',
    'Upgrade',
    'h2',
    'X-Topology',
    'id',
    'Content-Length',
    '3',
  ]
  expect(forwardableResponseHeaders([...rawHeaders, ...more], options.gatewayNames)).toEqual([
    'Content-Length',
    '3',
  ])
})

test('an answer cannot lose its framing or cookies through Connection', () => {
  const rawHeaders = ['Connection', 'content-length, set-cookie', 'Content-Length', '3', 'Set-Cookie', 'a']
  expect(forwardableResponseHeaders(rawHeaders, new Set())).toEqual(rawHeaders.slice(2))
})
