import { request as httpRequest } from 'node:http'
import { expect, it } from 'vitest'
import { HashRing } from '../../src/index.ts'
import { metricOf } from '../support/metrics.ts'
import { call, startGatewayTo } from '../support/raw-http.ts'
import {
  answerId,
  eventually,
  type Handler,
  keyOwnedBy,
  receive,
  startUpstreams,
} from '../support/servers.ts'

const key = keyOwnedBy(new HashRing(['U1', 'U2']), 'U1')

/** What U1 may do to a request. */
const faults = {
  answers: answerId,
  resetsBeforeTheHead: (request) => request.socket.destroy(),
  resetsWithinTheBody: (request, response) => {
    response.writeHead(200, { 'content-length': 9 }).write('four')
    setTimeout(() => request.socket.destroy(), 20)
  },
  isSilent: (request) => void request.on('error', () => {}).resume(),
  stallsWithinTheBody: (_request, response) =>
    void response.writeHead(200, { 'content-length': 9 }).write('four'),
  isFailing: (request, response, upstream) => {
    void receive(request, upstream).then(() => response.writeHead(503).end())
  },
  isMisdirected: (request, response, upstream) => {
    void receive(request, upstream).then(() => response.writeHead(421).end())
  },
  answersBeforeTheBody: (_request, response) => response.end('early'),
} satisfies Record<string, Handler>

type Client = (port: number) => Promise<unknown>

const asks =
  (headers: Record<string, string> = {}, method = 'GET', body?: Buffer): Client =>
  (port) =>
    call({ port }, { method, headers: { 'x-user-id': key, ...headers }, ...(body && { body }) }).catch(
      () => 'broken',
    )

/** Leaves so many milliseconds after the answer's first byte, or after the request where there is none. */
const leaves =
  (after: 'request' | 'head', body?: Buffer): Client =>
  (port) =>
    new Promise((resolve) => {
      const headers = { 'x-user-id': key, ...(body && { 'content-length': body.length * 2 }) }
      const sent = httpRequest({
        host: '127.0.0.1',
        port,
        agent: false,
        headers,
        method: body ? 'PUT' : 'GET',
      })
      sent.on('error', () => {}).once('close', resolve)
      sent.on('response', (message) => {
        message.on('error', () => {}).once('data', () => sent.destroy())
      })
      if (body) sent.write(body)
      else sent.end()
      if (after === 'request') setTimeout(() => sent.destroy(), 50)
    })

const big = Buffer.alloc(300_000)

type Row = [name: string, fault: keyof typeof faults, client: Client]

it.each<Row>([
  ['the answer ends', 'answers', asks()],
  ['the client leaves before the head', 'isSilent', leaves('request')],
  ['the client leaves within the body', 'stallsWithinTheBody', leaves('head')],
  ['the client leaves while it sends', 'isSilent', leaves('request', big)],
  ['a reset before the head, retried', 'resetsBeforeTheHead', asks()],
  ['a reset before the head, not to be retried', 'resetsBeforeTheHead', asks({}, 'POST', big)],
  ['a reset within the body', 'resetsWithinTheBody', asks()],
  ['no head in time', 'isSilent', asks()],
  ['no head in time, not to be retried', 'isSilent', asks({}, 'POST')],
  ['a body that stalls', 'stallsWithinTheBody', asks()],
  ['a status that is retried', 'isFailing', asks()],
  ['421', 'isMisdirected', asks({}, 'POST')],
  ['an answer before the body was taken', 'answersBeforeTheBody', asks({}, 'PUT', big)],
  ['onRequest throws', 'answers', asks({ 'x-throw': 'onRequest' })],
  ['onResponse throws before a body', 'stallsWithinTheBody', asks({ 'x-throw': 'onResponse' })],
])('slot and permit come back once: %s', async (_, fault, client) => {
  let mode: keyof typeof faults = 'answers'
  const upstreams = await startUpstreams(['U1', 'U2'], (request, response, upstream) => {
    const handler = upstream.id === 'U1' ? faults[mode] : answerId
    handler(request, response, upstream)
  })
  const throwIn = (hook: string) => (context: { request: { headers: Record<string, unknown> } }) => {
    if (context.request.headers['x-throw'] === hook) throw new Error('expected by the test')
  }
  const gateway = await startGatewayTo(upstreams, {
    boundedLoad: { factor: 1, floor: 1 },
    circuitBreaker: { consecutiveFailures: 1, distinctKeys: 1, openMs: 100, maxOpenMs: 100, jitter: 0 },
    timeouts: { firstByteMs: 150, idleMs: 150 },
    retry: { statuses: [503], backoff: { baseMs: 0, maxMs: 0 } },
    onRequest: throwIn('onRequest'),
    onResponse: throwIn('onResponse'),
  })
  const { proxy } = gateway
  const u1 = () => proxy.status().upstreams.find(({ id }) => id === 'U1')
  const expectIdle = async () => {
    await eventually('no slot taken', () => proxy.status().inFlight === 0)
    await eventually('no request left at U1', () => upstreams[0]?.active === 0)
    expect(proxy.status().upstreams.map(({ inFlight }) => inFlight)).toEqual([0, 0])
    expect(await metricOf(proxy, 'in_flight')).toBe(0)
  }
  mode = fault
  await Promise.all([client(gateway.port), client(gateway.port)])
  await expectIdle()

  // The same as a half-open breaker's only probe: were its permit lost, no other would ever be let through.
  mode = 'resetsBeforeTheHead'
  await eventually('the breaker to open', async () => {
    await asks()(gateway.port)
    return u1()?.breaker === 'open'
  })
  await eventually('half-open', () => u1()?.breaker === 'half-open')
  mode = fault
  await client(gateway.port)
  await expectIdle()
  mode = 'answers'
  await eventually('U1 to serve', async () => {
    await asks()(gateway.port)
    return u1()?.breaker === 'closed'
  })
})
