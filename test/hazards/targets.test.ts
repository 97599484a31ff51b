import express from 'express'
import { describe, expect, test } from 'vitest'
import type { Logger } from '../../src/index.ts'
import { metricOf } from '../support/metrics.ts'
import { call, startGatewayTo } from '../support/raw-http.ts'
import { eventually, startUpstream } from '../support/servers.ts'
import { RawClient } from '../support/web-sockets.ts'

/** The targets that the upstream received for these ones. */
async function arriving(
  targets: readonly string[],
  options: Parameters<typeof startGatewayTo>[1] = {},
  basePath = '',
): Promise<(string | undefined)[]> {
  const upstream = await startUpstream('a')
  const gateway = await startGatewayTo([{ id: 'a', url: upstream.url + basePath }], options)
  for (const target of targets) {
    const client = new RawClient(gateway.port)
    const method = target === '*' ? 'OPTIONS' : 'GET'
    client.socket.write(
      `${method} ${target} HTTP/1.1\r\nHost: gateway.test\r\nConnection: close\r\n\r\n`,
      'latin1',
    )
    await eventually(`an answer to ${target}`, () => client.ended)
    expect(client.received).toMatch(/^HTTP\/1.1 200 /)
  }
  return upstream.received.map(({ url }) => url)
}

const exact = [
  '/',
  '//a/b',
  '///',
  '/a//b/',
  '/a/../b/./c',
  '/a%2Fb%2f..%00',
  '/a\\b\\..\\c',
  '/a;b=1;c?d;e',
  '/?a=//b&c=http://d/e',
  '/a?',
  '/a??b?',
  "/!$&'()*+,;=:@-._~",
  '/{a}|"<b>^`',
  '*',
]

test('request targets arrive byte for byte', async () => {
  expect(await arriving(exact)).toEqual(exact)
})

test('request targets arrive byte for byte below a base path; `*` is below no path', async () => {
  expect(await arriving(exact, {}, '/base')).toEqual(
    exact.map((target) => (target === '*' ? '*' : `/base${target}`)),
  )
})

test('a target in absolute form arrives in origin form', async () => {
  const targets = [
    'http://gateway.test',
    'http://gateway.test?a=1',
    'http://u:p@gateway.test:80//a/b?c',
    'HTTPS://x/%2F',
  ]
  expect(await arriving(targets)).toEqual(['/', '/?a=1', '//a/b?c', '/%2F'])
})

describe('mounted at /api', () => {
  test('the upstream sees the path below the mount point', async () => {
    const upstream = await startUpstream('a')
    const gateway = await startGatewayTo([{ id: 'a', url: `${upstream.url}/v1/` }], {}, (app) => {
      app.use('/api', (request, response) => gateway.proxy(request, response))
    })
    for (const path of ['/api', '/api/', '/api//a/b?c=/api', '/api?x=1', '/api/api/x%2Fy'])
      expect((await call(gateway, { path })).status).toBe(200)
    expect(upstream.received.map(({ url }) => url)).toEqual([
      '/v1/',
      '/v1/',
      '/v1//a/b?c=/api',
      '/v1/?x=1',
      '/v1/api/x%2Fy',
    ])
  })

  test('inside a router as well', async () => {
    const upstream = await startUpstream('a')
    const gateway = await startGatewayTo([upstream], {}, (app) => {
      const router = express.Router()
      router.use('/v2', (request, response) => gateway.proxy(request, response))
      app.use('/api', router)
    })
    await call(gateway, { path: '/api/v2/x?y' })
    expect(upstream.received.map(({ url }) => url)).toEqual(['/x?y'])
  })
})

describe('rewritePath', () => {
  test('changes path and query before the base path is put in front', async () => {
    const rewritePath = (path: string) => path.replace(/^\/old/, '/new')
    expect(await arriving(['/old/a?b', '//old', '*'], { rewritePath }, '/base')).toEqual([
      '/base/new/a?b',
      '/base//old',
      '*',
    ])
  })

  test.each([
    ['a space', '/a b'],
    ['a line break', '/a\r\nX-Forged: 1'],
    ['no slash', 'a'],
    ['nothing', ''],
    ['beyond latin1', '/✓'],
    ['no string', 5 as unknown as string],
  ])('a bad value, %s: 500, and the log says what was expected', async (_, bad) => {
    const errors: string[] = []
    const logger: Logger = {
      ...{ debug: () => {}, info: () => {}, warn: () => {} },
      error: (details) => errors.push(String((details as { err?: unknown }).err)),
    }
    const upstream = await startUpstream('a')
    const gateway = await startGatewayTo([upstream], { rewritePath: () => bad, logger })
    const answer = await call(gateway)
    expect(answer.status).toBe(500)
    expect(answer.body.toString()).toBe('The gateway failed\n')
    expect(errors.join()).toMatch(/Expected rewritePath to return a path without white space, got /)
    expect(upstream.count).toBe(0)
    expect(gateway.proxy.status()).toMatchObject({ inFlight: 0 })
    expect(await metricOf(gateway.proxy, 'requests_total', { status_class: '5xx', outcome: 'failed' })).toBe(
      1,
    )
  })
})
