import { once } from 'node:events'
import { request as httpRequest } from 'node:http'
import express, { type Express } from 'express'
import { expect, test } from 'vitest'
import { type ConsistentHashProxyOptions, HashRing, keepRawBody, staticTopology } from '../../src/index.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { metricOf } from '../support/metrics.ts'
import { eventually, startGateway, startUpstreams, type TestGateway } from '../support/servers.ts'

const ids = ['u1', 'u2', 'u3']
const ring = new HashRing(ids)
const users = Array.from({ length: 12 }, (_, index) => `user-${index}`)

async function gatewayWith(
  options: Omit<ConsistentHashProxyOptions, 'topology'>,
  mount?: (app: Express) => void,
) {
  const upstreams = await startUpstreams(ids)
  const topology = staticTopology(upstreams.map(({ id, url }) => ({ id, url })))
  const gateway = await startGateway({ ...options, topology }, mount)
  await gateway.proxy.ready()
  const received = () => upstreams.flatMap((upstream) => upstream.received)
  return { gateway, received }
}

async function post(
  { url }: TestGateway,
  body: string | Buffer,
  headers: Record<string, string> = {},
): Promise<string> {
  const answer = await fetch(url, {
    method: 'POST',
    body: typeof body === 'string' ? body : new Uint8Array(body),
    headers: { 'content-type': 'application/json', ...headers },
  })
  expect(answer.status).toBe(200)
  return answer.text()
}

const parsers: [string, ((app: Express) => void) | undefined][] = [
  ['no parser', undefined],
  ['express.json()', (app) => app.use(express.json())],
  ['express.json() that keeps the bytes', (app) => app.use(express.json({ verify: keepRawBody }))],
  ['express.raw()', (app) => app.use(express.raw({ type: '*/*' }))],
]

test.each(parsers)('a body field is the key, and the body arrives: %s before the proxy', async (_, mount) => {
  const { gateway, received } = await gatewayWith({ key: 'body:/user/id' }, mount)
  for (const user of users) {
    const body = JSON.stringify({ items: ['ü', 1.5], user: { id: user } })
    expect(await post(gateway, body)).toBe(ring.owner(user))
    expect(received().some((request) => request.body.toString() === body)).toBe(true)
  }
  expect(await metricOf(gateway.proxy, 'missing_keys_total')).toBe(0)
})

test.each(parsers)(
  'a body over the limit has no key but arrives whole: %s before the proxy',
  async (_, mount) => {
    const { gateway, received } = await gatewayWith({ key: 'body:/user/id:limit=1024' }, mount)
    const body = JSON.stringify({ user: { id: 'ada' }, filler: 'x'.repeat(80_000) })
    await post(gateway, body)
    expect(received()[0]?.body.equals(Buffer.from(body))).toBe(true)
    expect(await metricOf(gateway.proxy, 'missing_keys_total')).toBe(1)
  },
)

test('a long body without a length is passed on whole, from what was looked at to its end', async () => {
  const { gateway, received } = await gatewayWith({ key: 'body:/user/id:limit=1024' })
  const sent = httpRequest({ host: '127.0.0.1', port: gateway.port, method: 'POST' })
  const chunks = Array.from({ length: 40 }, (_, index) => Buffer.alloc(5_000, index))
  for (const chunk of chunks) sent.write(chunk)
  sent.end()
  const [response] = await once(sent, 'response')
  response.resume()
  await once(response, 'end')
  expect(received()[0]?.body.equals(Buffer.concat(chunks))).toBe(true)
  expect(await metricOf(gateway.proxy, 'missing_keys_total')).toBe(1)
})

test.each([
  ['no such field', '{"user":{}}'],
  ['an object in its place', '{"user":{"id":{}}}'],
  ['a blank one', '{"user":{"id":" "}}'],
  ['no JSON', '{"user":'],
  ['no body', ''],
])('%s is a missing key and no error', async (_, body) => {
  const { gateway, received } = await gatewayWith({ key: 'body:/user/id' })
  await post(gateway, body)
  expect(received()[0]?.body.toString()).toBe(body)
  expect(await metricOf(gateway.proxy, 'missing_keys_total')).toBe(1)
})

test('prompts with one beginning go to one upstream', async () => {
  const { gateway } = await gatewayWith({ key: 'body:/prompt:first=20' })
  const beginning = 'You are a helpful 🤖!'
  const owners = await Promise.all(
    users.map((user) => post(gateway, JSON.stringify({ prompt: `${beginning} Greet ${user}.` }))),
  )
  expect(new Set(owners)).toEqual(new Set([ring.owner([...beginning].slice(0, 20).join(''))]))
})

test('a chain that finds its key in the head does not wait for the body', async () => {
  const { gateway, received } = await gatewayWith({ key: 'header:x-user-id,body:/user' })
  const sent = httpRequest({
    ...{ host: '127.0.0.1', port: gateway.port, method: 'POST' },
    headers: { 'x-user-id': 'ada', 'content-type': 'application/json' },
  })
  sent.write('{"user":')
  await eventually('the request to reach its upstream', () => gateway.proxy.status().inFlight === 1)
  sent.end('"bob"}')
  const [response] = await once(sent, 'response')
  expect((await response.toArray()).join('')).toBe(ring.owner('ada'))
  expect(received()[0]?.body.toString()).toBe('{"user":"bob"}')
  expect(await post(gateway, '{"user":"bob"}')).toBe(ring.owner('bob'))
})

test('a body that the key waits for in vain is answered 408, and nothing is in flight meanwhile', async () => {
  const clock = new ManualClock()
  const { gateway, received } = await gatewayWith({ key: 'body:/user', clock })
  const sent = httpRequest({ host: '127.0.0.1', port: gateway.port, method: 'POST' })
  sent.write('{"user":')
  const timers = clock.pendingTimers
  await eventually('the key to be waited for', () => clock.pendingTimers > timers)
  expect(gateway.proxy.status().inFlight).toBe(0)
  clock.advance(60_000)
  const [response] = await once(sent, 'response')
  expect(response.statusCode).toBe(408)
  sent.destroy()
  expect(received()).toEqual([])
  await eventually('the request to be counted', () =>
    metricOf(gateway.proxy, 'requests_total', { status_class: '4xx', outcome: 'failed', upstream: '' }),
  )
})
