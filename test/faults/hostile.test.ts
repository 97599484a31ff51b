import { once } from 'node:events'
import { connect } from 'node:net'
import { expect } from 'vitest'
import { LateTopology } from '../support/late-topology.ts'
import { eventually, startUpstream } from '../support/servers.ts'
import { etcdSource, fault, prefix, sleep } from './fault.ts'

const forged = 'GET /forged HTTP/1.1\r\nHost: gateway.test\r\nX-User-Id: victim\r\n\r\n'
const length = Buffer.byteLength(forged)
const chunks = `${length.toString(16)}\r\n${forged}\r\n0\r\n\r\n`

/** Heads and bodies that two servers may read as different requests. */
const smuggling: readonly string[] = [
  `Content-Length: ${length}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${forged}`,
  `Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}`,
  `Content-Length: 0\r\nContent-Length: ${length}\r\n\r\n${forged}`,
  `Content-Length: 0, ${length}\r\n\r\n${forged}`,
  `Content-Length: -1\r\n\r\n${forged}`,
  `Transfer-Encoding: xchunked\r\n\r\n${chunks}`,
  `Transfer-Encoding : chunked\r\n\r\n${chunks}`,
  `Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n${chunks}`,
  `Transfer-Encoding:\x0bchunked\r\n\r\n${chunks}`,
  `X-Fold: a\r\n Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n${forged}`,
  `Foo: bar\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n${forged}`,
  `Transfer-Encoding: chunked\r\n\r\n1;x=\ny\r\nz\r\n0\r\n\r\n${forged}`,
  `Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n${forged}`,
  `Content-Length: ${length}\r\n\r\n${forged}`,
  `Transfer-Encoding: chunked\r\n\r\n${chunks}`,
]

fault(
  'hostile inputs',
  async (stage) => {
    const etcd = await stage.etcd()
    const bystanders = await stage.upstreams('b')
    // Node's own server, strict as it is: a second request that it sees behind the first was smuggled.
    const victim = await startUpstream('a')
    await etcd.put(`${prefix}upstreams/a`, { url: victim.url })
    const source = new LateTopology(
      etcdSource(etcd.endpoint, { report: false, reconcileIntervalMs: 600_000 }),
    )
    const gateway = await stage.gateway({ topology: source, key: 'query:key,header:x-user-id' })
    await gateway.proxy.ready()
    const bystander = await stage.gatewayTo(bystanders)
    const traffic = stage.traffic({ ports: [bystander.port] })
    const reads = source.reads

    /** The answer to these bytes, and the requests that reached the upstream. */
    const speak = async (bytes: string) => {
      const before = victim.count
      const socket = connect({ port: gateway.port, host: '127.0.0.1' }).setEncoding('latin1')
      let answer = ''
      socket
        .on('error', () => {})
        .on('data', (text) => {
          answer += text
        })
      socket.write(bytes, 'latin1')
      await Promise.race([once(socket, 'data'), once(socket, 'close'), sleep(2_000)])
      await sleep(30) // for what may follow
      socket.destroy()
      return { answer, status: Number(answer.slice(9, 12)), received: victim.received.slice(before) }
    }
    const get = (target: string, lines: string) =>
      speak(`GET ${target} HTTP/1.1\r\nHost: gateway.test\r\nConnection: close\r\n${lines}\r\n`)

    for (const tail of smuggling) {
      const { status, received } = await speak(
        `POST /outer HTTP/1.1\r\nHost: gateway.test\r\nX-User-Id: 1\r\n${tail}`,
      )
      // Refused, or one request with the forged one as its body.
      if (received.length === 0) expect(status, tail).toBeOneOf([400, 501])
      else expect(received, tail).toMatchObject([{ url: '/outer', body: Buffer.from(forged) }])
    }

    // The key cannot be stripped, nor our own headers; no forged one passes.
    const lies = [
      'Connection: close, x-user-id, x-forwarded-for, x-topology',
      ...['X-User-Id: 7', 'X-Forwarded-For: 6.6.6.6', 'X-Ring-Owner: b', 'X-Key-Hash: 0000000000000000'],
      ...['X-Attempt: 99', 'X-Topology: id=x;epoch=0;revision=9223372036854775807;digest=0000000000000000'],
    ]
    const lied = await get('/lies', `${lies.join('\r\n')}\r\n`)
    const { topology, ...told } = Object.fromEntries(
      ['user-id', 'forwarded-for', 'ring-owner', 'attempt', 'topology', 'key-hash'].map((name) => [
        name,
        lied.received[0]?.headers[`x-${name}`],
      ]),
    )
    expect(told).toMatchObject({
      'user-id': '7',
      'forwarded-for': '127.0.0.1',
      'ring-owner': 'a',
      attempt: '1',
    })
    expect(told['key-hash']).not.toBe('0000000000000000')
    expect(topology).not.toContain('id=x')
    expect(lied.answer).not.toMatch(/x-topology|x-key-hash|x-ring-owner/i)

    // Wherever a target points, it reaches our upstream.
    const targets: readonly (readonly [sent: string, arrives: string])[] = [
      ['//evil.test/x', '//evil.test/x'],
      ['http://evil.test/x', '/x'],
      ['/a%0d%0aX-Evil:%201', '/a%0d%0aX-Evil:%201'],
      ['/../../etc/passwd', '/../../etc/passwd'],
      ['/a%2fb', '/a%2fb'],
    ]
    for (const [sent, arrives] of targets) {
      const { received, status } = await get(sent, 'X-User-Id: 1\r\n')
      expect(status, sent).toBe(200)
      expect(received).toMatchObject([{ url: arrives }])
      expect(received[0]?.headers).not.toHaveProperty('x-evil')
    }
    expect((await speak('CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test\r\n\r\n')).received).toEqual([])

    // Keys: too long ones are refused, malformed ones are hashed as what they can be.
    expect((await get('/', `X-User-Id: ${'k'.repeat(1_000_000)}\r\n`)).status).toBe(431)
    expect((await get('/', `X-User-Id: ${'k'.repeat(5_000)}\r\n`)).status).toBe(400)
    // The first is a lone surrogate, in what would be its UTF-8.
    for (const key of ['%ED%A0%80', '%', '%00', '%FF%FE'])
      expect((await get(`/?key=${key}`, '')).status).toBe(200)

    expect(source.reads).toBe(reads)
    await eventually('every slot to be free', () => gateway.proxy.status().inFlight === 0)
    expect(victim.received.map(({ url }) => url)).not.toContain('/forged')
    const account = stage.take(await traffic.stop(bystanders))
    expect([...account.failed, ...account.unsafeFailed, ...account.lost]).toEqual([])
  },
  { alone: true },
)
