import { request as httpRequest } from 'node:http'
import { expect, test } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { type ConsistentHashProxyOptions, HashRing, key, staticTopology } from '../../src/index.ts'
import { seededRandom } from '../support/manual-clock.ts'
import { metricOf } from '../support/metrics.ts'
import { startGateway, startUpstreams, type TestGateway } from '../support/servers.ts'

const ids = ['u1', 'u2', 'u3']
const ring = new HashRing(ids)
const hashOf = (text: string) => ring.position(text).toString(16).padStart(16, '0')

/** A gateway before three upstreams, with chance that can be replayed. */
async function gatewayWith(options: Omit<ConsistentHashProxyOptions, 'topology'>) {
  const upstreams = await startUpstreams(ids)
  const topology = staticTopology(upstreams.map(({ id, url }) => ({ id, url })))
  const clock = { ...systemClock, random: seededRandom(2022) }
  const gateway = await startGateway({ ...options, topology, clock })
  await gateway.proxy.ready()
  const hashesSeen = () =>
    upstreams.flatMap(({ received }) => received.map(({ headers }) => headers['x-key-hash']))
  return { gateway, upstreams, hashesSeen }
}

interface Reply {
  readonly status: number
  readonly body: string
}

/** Sends what `fetch` would tidy up: blank headers. */
function get({ port }: TestGateway, headers: Record<string, string> = {}, path = '/'): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const sent = httpRequest({ host: '127.0.0.1', port, path, headers }, async (response) => {
      const chunks: Buffer[] = []
      for await (const chunk of response) chunks.push(chunk)
      resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks).toString() })
    })
    sent.on('error', reject).end()
  })
}

/** In turn, so that nothing overflows and only the key decides. */
async function getEach(gateway: TestGateway, all: readonly Record<string, string>[]): Promise<Reply[]> {
  const replies: Reply[] = []
  for (const headers of all) replies.push(await get(gateway, headers))
  return replies
}

const shareOf = (replies: readonly Reply[], id: string) =>
  replies.filter(({ body }) => body === id).length / replies.length

test.each([
  ['no header', {}],
  ['an empty one', { 'x-user-id': '' }],
  ['a blank one', { 'x-user-id': '   ' }],
])(
  'Kong/kong#14251, apache/apisix#4276, caddyserver/caddy#2126: 300 requests with %s',
  async (_, headers) => {
    const { gateway } = await gatewayWith({ key: 'header:x-user-id' })
    const replies = await getEach(gateway, Array(300).fill(headers))
    expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([200]))
    for (const id of ids) {
      expect(shareOf(replies, id)).toBeGreaterThan(0.25)
      expect(shareOf(replies, id)).toBeLessThan(0.42)
    }
    expect(await metricOf(gateway.proxy, 'missing_keys_total')).toBe(300)
    expect(await metricOf(gateway.proxy, 'requests_total', { status_class: '5xx' })).toBeUndefined()
  },
)

test('Kong/kong#14251: a missing key is refused where asked, or made up by a function, and counted either way', async () => {
  const refusing = await gatewayWith({ key: 'header:x-user-id', onMissingKey: 'reject' })
  expect(await get(refusing.gateway)).toEqual({ status: 400, body: 'The request lacks its routing key\n' })
  expect((await get(refusing.gateway, { 'x-user-id': 'ada' })).status).toBe(200)
  expect(await metricOf(refusing.gateway.proxy, 'missing_keys_total')).toBe(1)

  const inventing = await gatewayWith({
    key: 'header:x-user-id',
    onMissingKey: ({ headers }) => String(headers['x-device'] ?? ''),
  })
  const made = await getEach(inventing.gateway, Array(20).fill({ 'x-device': 'd1' }))
  expect(new Set(made.map(({ body }) => body))).toEqual(new Set([ring.owner('d1')]))
  const left = await getEach(inventing.gateway, Array(60).fill({}))
  expect(new Set(left.map(({ body }) => body)).size).toBe(3)
  expect(await metricOf(inventing.gateway.proxy, 'missing_keys_total')).toBe(80)
})

test('caddyserver/caddy#5469, traefik/traefik#1035: 300 clients behind a trusted proxy, and with nobody trusted', async () => {
  const clients = Array.from({ length: 300 }, (_, index) => ({
    'x-forwarded-for': `203.0.${Math.floor(index / 250)}.${index % 250}, 10.0.0.1`,
  }))
  const trusting = await gatewayWith({ key: 'ip', trustedProxies: ['loopback', '10.0.0.0/8'] })
  const spread = await getEach(trusting.gateway, clients)
  for (const id of ids) expect(shareOf(spread, id)).toBeGreaterThan(0.2)
  expect(spread.map(({ body }) => body)).toEqual(
    clients.map((client) => ring.owner(client['x-forwarded-for'].split(',')[0] ?? '')),
  )
  const wary = await gatewayWith({ key: 'ip' })
  const gathered = await getEach(wary.gateway, clients)
  expect(new Set(gathered.map(({ body }) => body))).toEqual(new Set([ring.owner('127.0.0.1')]))
})

test.each([
  ['6.6.6.6, 203.0.113.7, 10.0.0.5', true, '203.0.113.7'],
  ['6.6.6.6, 203.0.113.7, 10.0.0.5', false, '127.0.0.1'],
  ['2001:DB8:0::7', true, '2001:db8::7'],
  ['[::1]:123', true, '::1'],
  ['::ffff:1.2.3.4', true, '1.2.3.4'],
  ['1.2.3.4', true, '1.2.3.4'],
  ['garbage', true, '127.0.0.1'],
])(
  'cloudfoundry/gorouter#179, oauth2-proxy/oauth2-proxy#3478: X-Forwarded-For %s, peer trusted: %s → key %s',
  async (forwardedFor, trusted, expected) => {
    const trustedProxies = ['10.0.0.0/8', ...(trusted ? ['127.0.0.1'] : [])]
    const { gateway, hashesSeen } = await gatewayWith({ key: 'ip', trustedProxies })
    await get(gateway, { 'x-forwarded-for': forwardedFor })
    expect(hashesSeen()).toEqual([hashOf(expected)])
  },
)

test('envoyproxy/gateway#7186, envoyproxy/envoy#1422: ("ab", "c") and ("a", "bc") are different keys, half a key is none', async () => {
  const { gateway, hashesSeen } = await gatewayWith({ key: 'header:x-a+header:x-b' })
  await getEach(gateway, [
    { 'x-a': 'ab', 'x-b': 'c' },
    { 'x-a': 'a', 'x-b': 'bc' },
  ])
  expect(new Set(hashesSeen()).size).toBe(2)
  expect(await metricOf(gateway.proxy, 'missing_keys_total')).toBe(0)
  const half = await getEach(gateway, Array(60).fill({ 'x-a': 'ab' }))
  expect(new Set(half.map(({ body }) => body)).size).toBe(3)
  expect(await metricOf(gateway.proxy, 'missing_keys_total')).toBe(60)
})

test('a chain takes the first key there is, whichever source it is from', async () => {
  const { gateway } = await gatewayWith({ key: 'header:x-user-id,cookie:sid,query:user' })
  const owner = ring.owner('ada')
  const replies = await getEach(gateway, [
    { 'x-user-id': 'ada', cookie: 'sid=other' },
    { 'x-user-id': ' ', cookie: 'sid=ada' },
    { cookie: 'sid=ada' },
  ])
  replies.push(await get(gateway, {}, '/?user=ada'))
  expect(replies.map(({ body }) => body)).toEqual(Array(4).fill(owner))
})

test('hash tags place keys that belong together at one upstream, only where asked', async () => {
  const keys = Array.from({ length: 30 }, (_, index) => ({ 'x-user-id': `cart:{user:123}:${index}` }))
  const tagged = await gatewayWith({ key: 'header:x-user-id', ring: { hashTags: true } })
  const together = await getEach(tagged.gateway, keys)
  expect(new Set(together.map(({ body }) => body))).toEqual(new Set([ring.owner('user:123')]))
  const plain = await gatewayWith({ key: 'header:x-user-id' })
  const apart = await getEach(plain.gateway, keys)
  expect(new Set(apart.map(({ body }) => body)).size).toBe(3)
})

test('a key function: its value is the key, what it throws is a missing key and never logged with its words', async () => {
  const logged: unknown[] = []
  const note = (fields: object, message: string) => void logged.push(JSON.stringify([fields, message]))
  const logger = { debug: note, info: note, warn: note, error: note }
  const { gateway, hashesSeen } = await gatewayWith({
    key: key.chain('query:user', ({ headers }) => JSON.parse(String(headers['x-session'])).user),
    logger,
  })
  expect((await get(gateway, { 'x-session': '{"user":"ada"}' })).body).toBe(ring.owner('ada'))
  expect((await get(gateway, { 'x-session': '{"user":42}' })).body).toBe(ring.owner('42'))
  expect((await get(gateway, { 'x-session': 'ada-secret' })).status).toBe(200)
  expect(hashesSeen()).not.toContain(hashOf('ada-secret'))
  expect(await metricOf(gateway.proxy, 'missing_keys_total')).toBe(1)
  const told = logged.filter((line) => String(line).includes('the key function threw'))
  expect(told).toHaveLength(1)
  expect(told[0]).toMatch(/SyntaxError.*head-keys\.test/)
  expect(String(logged)).not.toMatch(/ada-secret|"ada"/)
})

test('a key over the limit is refused, not shortened', async () => {
  const { gateway } = await gatewayWith({ key: 'header:x-user-id', limits: { keyBytes: 8 } })
  expect((await get(gateway, { 'x-user-id': '12345678' })).status).toBe(200)
  expect((await get(gateway, { 'x-user-id': '123456789' })).status).toBe(400)
})
