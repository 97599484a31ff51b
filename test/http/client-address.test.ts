import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, request as httpRequest, IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { OptionsError } from '../../src/errors.ts'
import { canonicalAddress, compileTrust } from '../../src/http/client-address.ts'

/** A request from any peer: loopback is all that real sockets have here. */
function requestFrom(peer: string | undefined, forwardedFor?: string): IncomingMessage {
  const socket = Object.defineProperty(new Socket(), 'remoteAddress', { value: peer })
  const headers = forwardedFor === undefined ? {} : { 'x-forwarded-for': forwardedFor }
  return Object.assign(new IncomingMessage(socket), { headers })
}

test.each([
  ['10.0.0.9', '6.6.6.6, 203.0.113.7, 10.0.0.5', '203.0.113.7'],
  ['198.51.100.1', '6.6.6.6, 203.0.113.7, 10.0.0.5', '198.51.100.1'],
  ['10.0.0.9', '10.0.0.1, 10.0.0.2', '10.0.0.1'],
  ['10.0.0.9', '2001:DB8:0:0::7', '2001:db8::7'],
  ['10.0.0.9', '[2001:db8::7]', '2001:db8::7'],
  ['10.0.0.9', '[::1]:123', '::1'],
  ['10.0.0.9', '203.0.113.7:5678', '203.0.113.7'],
  ['10.0.0.9', '::ffff:1.2.3.4', '1.2.3.4'],
  ['10.0.0.9', '::ffff:10.0.0.5,203.0.113.7 ,\t10.0.0.5,', '203.0.113.7'],
  ['::ffff:10.0.0.9', '203.0.113.7, ::FFFF:0a00:0005', '203.0.113.7'],
  ['10.0.0.9', 'garbage', '10.0.0.9'],
  ['10.0.0.9', '203.0.113.7, unknown, 10.0.0.5', '10.0.0.5'],
  ['10.0.0.9', '203.0.113.7 10.0.0.5', '10.0.0.9'],
  ['10.0.0.9', '010.0.0.5', '10.0.0.9'],
  ['10.0.0.9', '', '10.0.0.9'],
  ['10.0.0.9', undefined, '10.0.0.9'],
  ['::ffff:198.51.100.1', undefined, '198.51.100.1'],
])(
  '10.0.0.0/8 trusted, peer %s, X-Forwarded-For %j: %s (cloudfoundry/gorouter#179, oauth2-proxy/oauth2-proxy#3478)',
  (peer, forwardedFor, client) => {
    expect(compileTrust(['10.0.0.0/8']).clientAddress(requestFrom(peer, forwardedFor))).toBe(client)
  },
)

test('with nobody trusted every client is its peer (caddyserver/caddy#5469, traefik/traefik#1035)', () => {
  const clients = Array.from({ length: 300 }, (_, index) => `203.0.${Math.floor(index / 250)}.${index % 250}`)
  const seen = (trusted: readonly string[]) =>
    new Set(clients.map((client) => compileTrust(trusted).clientAddress(requestFrom('127.0.0.1', client))))
  expect(seen(['loopback'])).toEqual(new Set(clients))
  expect(seen([])).toEqual(new Set(['127.0.0.1']))
})

test.each([
  [['loopback'], '127.1.2.3', true],
  [['loopback'], '::1', true],
  [['loopback'], '::ffff:127.0.0.1', true],
  [['loopback'], '10.0.0.1', false],
  [['linklocal'], 'fe80::1', true],
  [['uniquelocal', '198.51.100.1'], '192.168.1.1', true],
  [['uniquelocal', '198.51.100.1'], '198.51.100.1', true],
  [['uniquelocal', '198.51.100.1'], '198.51.100.2', false],
  [['10.0.0.0/255.0.0.0'], '10.1.1.1', true],
  [['2001:db8::/32'], '2001:db8:ffff::1', true],
  [['2001:db8::/32'], '2001:db9::1', false],
  [[], '127.0.0.1', false],
  [['loopback'], undefined, false],
  [['unix'], undefined, true],
  [['unix'], '127.0.0.1', false],
])('%j trusts %s: %s', (trusted, peer, expected) => {
  expect(compileTrust(trusted).isTrustedPeer(requestFrom(peer))).toBe(expected)
})

test('a peer on a Unix socket has no address of its own and is trusted by name', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'client-address-'))
  const socketPath = join(folder, 'gateway.sock')
  const server = createServer((request, response) => {
    response.end([[], ['unix']].map((trusted) => compileTrust(trusted).clientAddress(request)).join())
  })
  try {
    await new Promise<void>((resolve) => server.listen(socketPath, resolve))
    const answer = await new Promise<string>((resolve, reject) => {
      httpRequest({ socketPath, headers: { 'x-forwarded-for': '203.0.113.7' } }, (response) => {
        response.setEncoding('utf8').on('data', resolve)
      })
        .on('error', reject)
        .end()
    })
    expect(answer).toBe('unix,203.0.113.7')
  } finally {
    server.close()
    rmSync(folder, { recursive: true })
  }
})

test.each([
  ['10.0.0.0/33'],
  ['10.0.0.0/0'],
  ['10/8'],
  ['10.0.0.0/8/8'],
  ['1.2.3'],
  ['localhost'],
  [''],
  ['loopback '],
  [7],
])('the entry %j is refused by name', (entry) => {
  const compile = () => Reflect.apply(compileTrust, undefined, [['loopback', entry]])
  expect(compile).toThrow(OptionsError)
  expect(compile).toThrow(
    `Expected \`trustedProxies\` to list addresses, CIDR ranges, loopback, linklocal, uniquelocal or unix, got ${typeof entry === 'string' ? `'${entry}'` : entry}`,
  )
})

test('an address has one spelling', () => {
  fc.assert(
    fc.property(fc.ipV4(), fc.ipV6(), fc.nat(65_535), (v4, v6, port) => {
      expect(canonicalAddress(`::ffff:${v4}`)).toBe(v4)
      expect(canonicalAddress(`${v4}:${port}`)).toBe(v4)
      const canonical = canonicalAddress(v6)
      expect(canonical).toBeDefined()
      expect(canonicalAddress(canonical ?? '')).toBe(canonical)
      expect(canonicalAddress(v6.toUpperCase())).toBe(canonical)
      expect(canonicalAddress(`[${v6}]:${port}`)).toBe(canonical)
    }),
  )
})

test('whatever X-Forwarded-For says, the result is an address that someone trusted reported', () => {
  const entry = fc.oneof(
    fc.ipV4(),
    fc.ipV6(),
    fc.string(),
    fc.constantFrom('10.0.0.1', '[', '::1%', ':', '1.2.3.4:'),
  )
  const { clientAddress } = compileTrust(['10.0.0.0/8'])
  fc.assert(
    fc.property(fc.array(entry), (entries) => {
      const client = clientAddress(requestFrom('10.0.0.9', entries.join(',')))
      const reported = entries.flatMap((text) => text.split(',')).map((text) => canonicalAddress(text.trim()))
      expect(['10.0.0.9', ...reported]).toContain(client)
      expect(canonicalAddress(client)).toBe(client)
    }),
  )
})
