import type express from 'express'
import { Router } from 'express'
import { expect, onTestFinished, test } from 'vitest'
import {
  type ConsistentHashProxy,
  type ConsistentHashProxyOptions,
  consistentHashProxy,
  HashRing,
  OptionsError,
  staticTopology,
} from '../../src/index.ts'
import { metricOf } from '../support/metrics.ts'
import { startGateway, startUpstreams } from '../support/servers.ts'

const ids = ['u1', 'u2', 'u3']
const ring = new HashRing(ids)
const users = Array.from({ length: 12 }, (_, index) => `user ${index}`)

/** Mounts a proxy as the test says, in an Express 5 app of its own. */
async function mounted(
  options: Omit<ConsistentHashProxyOptions, 'topology'>,
  mount: (app: express.Express, proxy: ConsistentHashProxy) => void,
) {
  const upstreams = await startUpstreams(ids)
  const topology = staticTopology(upstreams.map(({ id, url }) => ({ id, url })))
  const proxy = consistentHashProxy({ ...options, topology })
  const gateway = await startGateway({ key: 'ip', topology }, (app) => mount(app, proxy))
  onTestFinished(() => proxy.close())
  await proxy.ready()
  const get = async (path: string) => (await fetch(gateway.url + path)).text()
  return { proxy, get, received: () => upstreams.flatMap((upstream) => upstream.received) }
}

test.each([
  ['app.use', (app: express.Express, proxy: ConsistentHashProxy) => app.use('/users/:id', proxy)],
  ['app.all', (app: express.Express, proxy: ConsistentHashProxy) => app.all('/users/:id{/*rest}', proxy)],
  [
    'a router that merges parameters',
    (app: express.Express, proxy: ConsistentHashProxy) =>
      app.use('/users/:id', Router({ mergeParams: true }).use(proxy)),
  ],
])('a route parameter is the key, decoded, under %s', async (_, mount) => {
  const { proxy, get } = await mounted({ key: 'param:id' }, mount)
  for (const user of users) {
    expect(await get(`/users/${encodeURIComponent(user)}/carts/${user.length}`)).toBe(ring.owner(user))
  }
  expect(await metricOf(proxy, 'missing_keys_total')).toBe(0)
})

test('a router that does not merge parameters hides them: the key is missing, and the request is served', async () => {
  const { proxy, get } = await mounted({ key: 'param:id' }, (app, proxy) =>
    app.use('/users/:id', Router().use(proxy)),
  )
  expect(ids).toContain(await get('/users/ada'))
  expect(await metricOf(proxy, 'missing_keys_total')).toBe(1)
})

test('the first part of a wildcard is the key', async () => {
  const { get } = await mounted({ key: 'param:path' }, (app, proxy) => app.use('/files/*path', proxy))
  expect(await get('/files/ada/x/y')).toBe(ring.owner('ada'))
})

test('path and segment are those that the client sent, wherever the proxy is mounted; the upstream gets the rest', async () => {
  const { get, received } = await mounted({ key: 'path:3' }, (app, proxy) => app.use('/api/users', proxy))
  expect(await get('/api/users/ada/cart?x=1')).toBe(ring.owner('ada'))
  expect(received().map(({ url }) => url)).toEqual(['/ada/cart?x=1'])
})

test('a key that needs a route or a body does not work for upgrades, and says so before the first one', async () => {
  for (const key of ['param:id', 'body:/user', 'header:x+param:id']) {
    const { proxy } = await mounted({ key }, (app, proxy) => app.use(proxy))
    expect(() => proxy.upgrade).toThrow(OptionsError)
    expect(() => proxy.upgrade).toThrow(`to be one that works for upgrades, got '${key}'`)
  }
  const { proxy } = await mounted({ key: 'param:id,ip' }, (app, proxy) => app.use(proxy))
  expect(proxy.upgrade).toBeTypeOf('function')
})
