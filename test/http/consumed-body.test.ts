import { once } from 'node:events'
import { createServer, request as httpRequest, IncomingMessage } from 'node:http'
import { type AddressInfo, Socket } from 'node:net'
import { text as textOf } from 'node:stream/consumers'
import { gzipSync } from 'node:zlib'
import express, { type ErrorRequestHandler, type Express, type RequestHandler } from 'express'
import fc from 'fast-check'
import { parse } from 'qs'
import { afterAll, afterEach, describe, expect, it } from 'vitest'
import { type BodyPlan, describeBody, keepRawBody, parsedJson } from '../../src/http/consumed-body.ts'
import { RequestBody } from '../../src/http/request-body.ts'

interface Arrival {
  plan: BodyPlan
  json: unknown
  /** What a real upstream got; absent when the plan was to refuse. */
  upstream?: { bytes: Buffer; type: string | undefined }
}

const open = new Set<ReturnType<typeof createServer>>()
async function listen(server: ReturnType<typeof createServer>): Promise<number> {
  server.listen(0, '127.0.0.1')
  open.add(server)
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}
function closeAll() {
  for (const server of open) {
    server.close()
    server.closeAllConnections()
  }
  open.clear()
}
afterEach(closeAll)
afterAll(closeAll)

async function bytesOf(stream: AsyncIterable<Buffer>): Promise<Buffer> {
  const pieces: Buffer[] = []
  for await (const piece of stream) pieces.push(piece)
  return Buffer.concat(pieces)
}

/** A gateway in Express behind these parsers, before a real upstream: says what was planned and what arrived. */
async function gateway(...parsers: (RequestHandler | ErrorRequestHandler)[]) {
  const received: NonNullable<Arrival['upstream']>[] = []
  const upstream = createServer(async (request, response) => {
    received.push({ bytes: await bytesOf(request), type: request.headers['content-type'] })
    response.end()
  })
  const upstreamPort = await listen(upstream)
  const arrivals: Arrival[] = []
  const app: Express = express()
  for (const parser of parsers) app.use(parser)
  app.use(async (request, response) => {
    const plan = describeBody(request)
    const body = new RequestBody(plan.kind === 'bytes' ? plan.bytes : request, { replayLimit: 65_536 })
    const arrival: Arrival = { plan, json: undefined }
    arrivals.push(arrival)
    if (plan.kind !== 'refused') {
      arrival.json = parsedJson(request, plan, await body.peek(65_536))
      const type = (plan.kind === 'bytes' && plan.contentType) || request.headers['content-type']
      const headers = type ? { 'content-type': type } : {}
      const forwarded = httpRequest({ port: upstreamPort, method: 'POST', headers, agent: false })
      body.open().pipe(forwarded)
      const [answer] = await once(forwarded, 'response')
      await textOf(answer)
      const upstreamGot = received.shift()
      if (upstreamGot) arrival.upstream = upstreamGot
    }
    response.end()
  })
  const port = await listen(createServer(app))
  return async (headers: Record<string, string>, content: string | Buffer | Buffer[]): Promise<Arrival> => {
    const framing = Array.isArray(content) ? { 'transfer-encoding': 'chunked' } : {}
    const client = httpRequest({ port, method: 'POST', agent: false, headers: { ...headers, ...framing } })
    if (Array.isArray(content)) for (const chunk of content) client.write(chunk)
    client.end(Array.isArray(content) ? undefined : content)
    const [answer] = await once(client, 'response')
    await textOf(answer)
    const arrival = arrivals.shift()
    if (arrival === undefined)
      throw new Error('Expected the request to reach the proxy, got an answer before it')
    return arrival
  }
}

/** As body-parser 1 (Express 4) does: `body` is `{}` from the first, and stays so when parsing fails. */
const bodyParser1: RequestHandler = async (request, _response, next) => {
  const parsed: IncomingMessage & { body?: unknown; _body?: boolean } = request
  parsed.body = parsed.body || {}
  const { headers } = request
  const hasBody = headers['transfer-encoding'] !== undefined || headers['content-length'] !== undefined
  if (!hasBody || headers['content-type'] !== 'application/json') return next()
  parsed._body = true
  try {
    const content = await textOf(request)
    parsed.body = content === '' ? {} : JSON.parse(content)
    next()
  } catch (error) {
    next(error)
  }
}

const passOnErrors: ErrorRequestHandler = (_error, _request, _response, next) => next()

const json = { 'content-type': 'application/json' }
const form = { 'content-type': 'application/x-www-form-urlencoded' }
const plain = { 'content-type': 'text/plain' }
const gzip = { 'content-encoding': 'gzip' }
const length0 = { 'content-length': '0' }

describe('a body that a parser consumed', () => {
  const pretty = '{ "user": {"id": 7},  "name": "Zoë" }'
  const compact = '{"user":{"id":7},"name":"Zoë"}'
  const value = { user: { id: 7 }, name: 'Zoë' }

  const rows: [
    string,
    RequestHandler,
    Record<string, string>,
    string | Buffer | Buffer[],
    string,
    unknown,
  ][] = [
    ['JSON', express.json(), json, pretty, compact, value],
    ['JSON in chunks', express.json(), json, [Buffer.from(pretty)], compact, value],
    ['JSON in gzip', express.json(), { ...json, ...gzip }, gzipSync(pretty), compact, value],
    ['an array', express.json(), json, '[1, 2]', '[1,2]', [1, 2]],
    ['an empty object', express.json(), json, '{}', '{}', {}],
    [
      'a type with +json',
      express.json({ type: '*/*' }),
      { 'content-type': 'a/b+json; v=1' },
      '{ }',
      '{}',
      {},
    ],
    ['null from a lenient parser', express.json({ strict: false }), json, ' null', 'null', null],
    ['kept JSON', express.json({ verify: keepRawBody }), json, pretty, pretty, value],
    [
      'kept JSON in gzip',
      express.json({ verify: keepRawBody }),
      { ...json, ...gzip },
      gzipSync(pretty),
      pretty,
      value,
    ],
    ['kept text of JSON', express.text({ type: '*/*', verify: keepRawBody }), json, '"a"', '"a"', 'a'],
    ['an empty chunked body', express.json(), json, [], '', undefined],
    ['a form', express.urlencoded(), form, 'b=2&a=1&a=3&c=x+y', 'b=2&a=1&a=3&c=x+y', undefined],
    [
      'a nested form',
      express.urlencoded({ extended: true }),
      form,
      'a[b][]=1&a[c]=2',
      'a%5Bb%5D%5B0%5D=1&a%5Bc%5D=2',
      undefined,
    ],
    ['an empty form', express.urlencoded(), form, [], '', undefined],
    [
      'bytes',
      express.raw({ type: '*/*' }),
      { 'content-type': 'multipart/form-data; boundary=x' },
      '--x--',
      '--x--',
      undefined,
    ],
    [
      'bytes of JSON in gzip',
      express.raw({ type: '*/*' }),
      { ...json, ...gzip },
      gzipSync(pretty),
      pretty,
      value,
    ],
    ['text', express.text(), plain, 'Zoë', 'Zoë', undefined],
    ['empty text', express.text(), plain, [], '', undefined],
    ['JSON taken as text', express.text({ type: '*/*' }), json, pretty, pretty, value],
    ['text with a byte order mark', express.text(), plain, '\ufeffx', 'x', undefined],
  ]
  for (const [what, parser, headers, content, expected, expectedJson] of rows) {
    it(`still arrives: ${what}`, async () => {
      const send = await gateway(parser)
      const { plan, upstream, json } = await send(headers, content)
      expect(plan).toMatchObject({ kind: 'bytes', dropContentEncoding: true })
      expect(plan).not.toHaveProperty('contentType')
      expect(String(upstream?.bytes)).toBe(expected)
      expect(upstream?.type).toBe(headers['content-type'])
      expect(json).toEqual(expectedJson)
    })
  }

  it('arrives in the charset that the client named, or in UTF-8 and says so', async () => {
    const send = await gateway(express.text(), express.json(), express.urlencoded())
    const latin = Buffer.from('Zoë', 'latin1')
    const kept = await send({ 'content-type': 'text/plain; charset="ISO-8859-1"' }, latin)
    expect(kept.upstream).toEqual({ bytes: latin, type: 'text/plain; charset="ISO-8859-1"' })
    const wide = await send(
      { 'content-type': 'text/plain; charset=utf-16le; x=1' },
      Buffer.from('Zoë', 'utf16le'),
    )
    expect(wide.upstream?.bytes).toEqual(Buffer.from('Zoë', 'utf16le'))
    const windows = await send({ 'content-type': 'text/plain; charset=windows-1252; x=1' }, Buffer.of(0x80))
    expect(windows.upstream).toEqual({ bytes: Buffer.from('€'), type: 'text/plain; charset=utf-8; x=1' })
    const utf16 = await send(
      { 'content-type': 'application/json;charset=utf-16' },
      Buffer.from('{"a":"ë"}', 'utf16le'),
    )
    expect(utf16.upstream).toEqual({
      bytes: Buffer.from('{"a":"ë"}'),
      type: 'application/json;charset=utf-8',
    })
    const field = await send({ 'content-type': `${form['content-type']}; charset=iso-8859-1` }, 'a=%EB')
    expect(String(field.upstream?.bytes)).toBe('a=%EB')
  })

  it('leaves the charset of the client when the text has outgrown it', async () => {
    const shout: RequestHandler = (request, _response, next) => {
      request.body = `${request.body} €`
      next()
    }
    const send = await gateway(express.text(), shout)
    const { upstream } = await send({ 'content-type': 'text/plain; charset=iso-8859-1' }, 'x')
    expect(upstream).toEqual({ bytes: Buffer.from('x €'), type: 'text/plain; charset=utf-8' })
  })

  it('parses back to the same form, by the parser that made it', async () => {
    const name = fc.stringMatching(/^[a-z]{1,3}$/)
    const suffix = fc.constantFrom(
      '',
      '',
      '[]',
      '[0]',
      '[1]',
      '[x]',
      '[x][y]',
      '[x][]',
      '[0][x]',
      '[x][0][y]',
    )
    const field = fc.tuple(name, suffix, fc.string({ unit: 'binary', maxLength: 4 }))
    await fc.assert(
      fc.asyncProperty(
        fc.array(field, { minLength: 1, maxLength: 8 }),
        fc.boolean(),
        async (fields, extended) => {
          const content = fields.map(
            ([key, more, value]) => `${key}${more}=${encodeURIComponent(value.toWellFormed())}`,
          )
          const read = (encoded: string) =>
            parse(encoded, { depth: extended ? 32 : 0, allowPrototypes: true, arrayLimit: 100 })
          const body = read(content.join('&'))
          const plan = describeBody(await consumed(form, body))
          expect(plan.kind === 'bytes' && read(String(plan.bytes))).toEqual(body)
        },
      ),
      { numRuns: 500 },
    )
  })
})

/** A request as a parser leaves it, for a law over many values that needs no socket. */
async function consumed(headers: Record<string, string>, body: unknown) {
  const request = Object.assign(new IncomingMessage(new Socket()), { body })
  Object.assign(request.headers, { 'content-length': '1', ...headers })
  request.push('x')
  request.push(null)
  await textOf(request)
  return request
}

describe('a body that nobody consumed', () => {
  it('is told from a consumed one by the stream, whatever `body` says', async () => {
    for (const parsers of [[], [express.json()], [express.urlencoded()], [bodyParser1]]) {
      const send = await gateway(...parsers)
      expect(await send(plain, 'whole')).toMatchObject({ plan: { kind: 'stream' }, json: undefined })
      const lines = await send({ 'content-type': 'application/vnd.a+json' }, '{ "a": 1 }')
      expect(lines).toMatchObject({ plan: { kind: 'stream' }, json: { a: 1 } })
      expect(String(lines.upstream?.bytes)).toBe('{ "a": 1 }')
      expect(await send({ ...plain, ...length0 }, '')).toMatchObject({
        plan: { kind: 'none' },
        json: undefined,
      })
      expect(await send({ ...json, ...length0 }, '')).toMatchObject({
        plan: { kind: 'none' },
        json: undefined,
      })
    }
  })

  it('has no JSON for a key when it is compressed, broken, or longer than a key may look at', async () => {
    const send = await gateway()
    expect((await send({ ...json, ...gzip }, gzipSync('{}'))).json).toBeUndefined()
    expect((await send({ ...json, ...gzip }, '{}')).json).toBeUndefined()
    expect((await send(json, '{')).json).toBeUndefined()
    expect((await send(json, `"${'x'.repeat(65_536)}"`)).json).toBeUndefined()
    expect((await send({ ...json, 'content-encoding': 'Identity' }, '\ufeff{"a":1}')).json).toEqual({ a: 1 })
  })
})

describe('a body that is gone', () => {
  const multipart = { 'content-type': 'multipart/form-data; boundary=x' }
  /** As multer does, as far as we can see. */
  const multipartParser: RequestHandler = async (request, _response, next) => {
    await textOf(request)
    request.body = { field: '1' }
    next()
  }
  const readsOnePiece: RequestHandler = (request, _response, next) => {
    request.once('data', () => {
      request.pause()
      next()
    })
  }
  const pipesAway: RequestHandler = (request, _response, next) => {
    request.resume()
    next()
  }
  const decodes: RequestHandler = (request, _response, next) => {
    request.setEncoding('utf8')
    next()
  }
  const spoils: RequestHandler = (request, _response, next) => {
    request.body.self = request.body
    next()
  }
  const readsOnly: RequestHandler = async (request, _response, next) => {
    await textOf(request)
    next()
  }
  const long = Buffer.alloc(200_000, 'x')

  const rows: [
    string,
    (RequestHandler | ErrorRequestHandler)[],
    Record<string, string>,
    string | Buffer,
    string,
  ][] = [
    [
      'a parse error',
      [express.json(), passOnErrors],
      json,
      '{"a":',
      'consumed without a parsed `request.body`',
    ],
    ['a parse error in Express 4', [bodyParser1, passOnErrors], json, '{"a":', 'a parser that failed'],
    ['a body over the limit', [express.json(), passOnErrors], json, long, 'consumed without a parsed'],
    [
      'broken gzip',
      [express.json(), passOnErrors],
      { ...json, ...gzip },
      'xxxx',
      'consumed without a parsed',
    ],
    ['multipart', [multipartParser], multipart, '--x--', 'a multipart body that was consumed'],
    ['a foreign reader', [readsOnly], plain, 'x', 'consumed without a parsed'],
    ['a partial read', [readsOnePiece], plain, long, 'read in part'],
    ['a stream that flows elsewhere', [pipesAway], plain, long, 'read in part'],
    ['a decoded stream', [decodes], plain, 'x', 'setEncoding'],
    ['a circular body', [express.json(), spoils], json, '{}', 'cannot be serialised'],
    [
      'a parsed body of another type',
      [express.json({ type: '*/*' })],
      plain,
      '{}',
      'neither JSON nor urlencoded',
    ],
    ['a JSON string, or its text', [express.text({ type: '*/*' })], json, '"a"', 'JSON consumed to a string'],
  ]
  for (const [what, parsers, headers, content, found] of rows) {
    it(`is refused with the cure: ${what}`, async () => {
      const send = await gateway(...parsers)
      const { plan, upstream } = await send(headers, content)
      expect(plan).toMatchObject({ kind: 'refused', message: expect.stringContaining(found) })
      expect(plan).toMatchObject({ message: expect.stringContaining('mount the proxy before the parser') })
      expect(upstream).toBeUndefined()
    })
  }

  it('is not, where Express 4 has really seen an empty object', async () => {
    const send = await gateway(bodyParser1)
    expect(String((await send(json, '{}')).upstream?.bytes)).toBe('{}')
    expect(String((await send(json, [])).upstream?.bytes)).toBe('')
  })
})
