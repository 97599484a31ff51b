import { gzipSync } from 'node:zlib'
import express, { type Express } from 'express'
import { describe, expect, test } from 'vitest'
import { keepRawBody } from '../../src/index.ts'
import { metricOf } from '../support/metrics.ts'
import { type Call, call, startGatewayTo } from '../support/raw-http.ts'
import { startUpstream, startUpstreams } from '../support/servers.ts'

const json = { 'content-type': 'application/json' }
const form = { 'content-type': 'application/x-www-form-urlencoded' }
const text = { 'content-type': 'text/plain' }

describe('http-party/node-http-proxy#180, #843, chimurai/http-proxy-middleware#40: a POST that a parser has read', () => {
  const arriving: readonly [string, (app: Express) => void, Call, string][] = [
    ['express.json()', (app) => app.use(express.json()), { headers: json, body: '{"a": 1}' }, '{"a":1}'],
    [
      'express.json() with keepRawBody, byte for byte',
      (app) => app.use(express.json({ verify: keepRawBody })),
      { headers: json, body: '{"a":  1.0}' },
      '{"a":  1.0}',
    ],
    [
      'express.urlencoded()',
      (app) => app.use(express.urlencoded({ extended: true })),
      { headers: form, body: 'a=1&b[c]=x+y' },
      'a=1&b%5Bc%5D=x+y',
    ],
    ['express.raw()', (app) => app.use(express.raw({ type: '*/*' })), { headers: text, body: 'raw' }, 'raw'],
    ['express.text()', (app) => app.use(express.text()), { headers: text, body: 'été' }, 'été'],
    [
      'express.json(), sent compressed',
      (app) => app.use(express.json()),
      { headers: { ...json, 'content-encoding': 'gzip' }, body: gzipSync('{"a":1}') },
      '{"a":1}',
    ],
    [
      'express.json(), sent in chunks',
      (app) => app.use(express.json()),
      { headers: { ...json, 'transfer-encoding': 'chunked' }, body: '{"a":1}' },
      '{"a":1}',
    ],
    ['express.json(), without a body', (app) => app.use(express.json()), { headers: json }, ''],
    [
      'a parser that leaves it alone',
      (app) => app.use(express.json()),
      { headers: text, body: 'untouched' },
      'untouched',
    ],
  ]

  test.each(arriving)('%s: arrives within a second', async (_, mount, sent, expected) => {
    const upstream = await startUpstream('a')
    const gateway = await startGatewayTo([upstream], {}, mount)
    const started = performance.now()
    expect(await call(gateway, { method: 'POST', ...sent })).toMatchObject({ status: 200 })
    expect(performance.now() - started).toBeLessThan(1_000)
    const [received] = upstream.received
    expect(received?.body.toString()).toBe(expected)
    expect(received?.headers).not.toHaveProperty('content-encoding')
    expect(received?.headers['content-type']).toBe(sent.headers?.['content-type'])
    expect(gateway.proxy.status().inFlight).toBe(0)
  })

  test('is replayed whole at the next owner', async () => {
    const [a, b] = await startUpstreams(['a', 'b'])
    if (!a || !b) throw new Error('expected two upstreams')
    const gateway = await startGatewayTo([a, b], { key: 'body:/user' }, (app) => app.use(express.json()))
    await a.stop()
    for (let user = 0; user < 10; user += 1)
      expect(await call(gateway, { method: 'POST', headers: json, body: `{"user":${user}}` })).toMatchObject({
        status: 200,
      })
    expect(b.received.map(({ body }) => body.toString())).toEqual(
      Array.from({ length: 10 }, (_, user) => `{"user":${user}}`),
    )
    expect(await metricOf(gateway.proxy, 'retries_total', { reason: 'connect' })).toBeGreaterThan(0)
  })

  test('and cannot be had again is refused at once, with an answer that names the cure', async () => {
    const upstream = await startUpstream('a')
    const gateway = await startGatewayTo([upstream], {}, (app) => {
      app.use((request, _, next) => {
        request.resume().once('end', () => next())
      })
    })
    const answer = await call(gateway, { method: 'POST', headers: text, body: 'gone' })
    expect(answer).toMatchObject({ status: 500 })
    expect(answer.body.toString()).toMatch(/mount the proxy before the parser/)
    expect(upstream.count).toBe(0)
    expect(await metricOf(gateway.proxy, 'requests_total', { outcome: 'failed' })).toBe(1)
  })

  test('as multipart is refused likewise', async () => {
    const upstream = await startUpstream('a')
    const gateway = await startGatewayTo([upstream], {}, (app) => {
      app.use((request, _, next) => {
        request.body = { file: 'parsed' }
        request.resume().once('end', () => next())
      })
    })
    const headers = { 'content-type': 'multipart/form-data; boundary=b' }
    const answer = await call(gateway, { method: 'POST', headers, body: '--b--\r\n' })
    expect(answer).toMatchObject({ status: 500 })
    expect(answer.body.toString()).toMatch(
      /multipart body that was consumed: mount the proxy before the parser/,
    )
  })

  test('and failed at is answered by the application, not by us', async () => {
    const upstream = await startUpstream('a')
    const gateway = await startGatewayTo([upstream], {}, (app) => app.use(express.json()))
    expect(await call(gateway, { method: 'POST', headers: json, body: '{"a":' })).toMatchObject({
      status: 400,
    })
    expect(upstream.count).toBe(0)
  })

  test('and failed at, for an application that goes on all the same, is refused', async () => {
    const upstream = await startUpstream('a')
    const gateway = await startGatewayTo([upstream], {}, (app) => {
      app.use(express.json())
      app.use(((_error, _request, _response, next) => next()) satisfies express.ErrorRequestHandler)
    })
    const answer = await call(gateway, { method: 'POST', headers: json, body: '{"a":' })
    expect(answer).toMatchObject({ status: 500 })
    expect(upstream.count).toBe(0)
  })
})
