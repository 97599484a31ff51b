import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { OptionsError, RefusedEntryError } from '../../src/errors.ts'
import { decodeOverride, decodeUpstream } from '../../src/topology/decode.ts'
import { parseUpstream, upstreamOption } from '../../src/topology/parse-upstream.ts'
import { type AllowedHosts, hostFilter } from '../../src/topology/upstream-url.ts'

const rules = { defaultId: 'key', mayHaveHost: () => true }
const decode = (value: string | object | Buffer) =>
  decodeUpstream(
    Buffer.isBuffer(value) ? value : Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)),
    rules,
  )
const refusal = (work: () => unknown): string => {
  try {
    work()
  } catch (error) {
    if (error instanceof RefusedEntryError) return `${error.reason}: ${error.message}`
    throw error
  }
  return 'accepted'
}

const url = 'http://h:1'
const plain = { id: 'key', url, weight: 1, state: 'active' }

describe('decodeUpstream', () => {
  it.each<[string, string | object, object]>([
    ['a bare URL', url, plain],
    ['a bare URL with a line end', `${url}\n`, plain],
    ['a root path', `${url}/`, plain],
    ['a base path', `${url}/a/b/`, { ...plain, url: `${url}/a/b/` }],
    ['a scheme’s own port and capitals', 'HTTPS://Example.COM:443', { ...plain, url: 'https://example.com' }],
    ['an IPv6 address', 'http://[::1]:8080', { ...plain, url: 'http://[::1]:8080' }],
    ['an address in disguise, as what it is', 'http://0x7f.1', { ...plain, url: 'http://127.0.0.1' }],
    ['JSON with the URL alone', { url }, plain],
    [
      'every field',
      { id: 'é', url, weight: 0.5, state: 'draining', zone: 'z', metadata: { a: [1] } },
      { id: 'é', url, weight: 0.5, state: 'draining', zone: 'z', metadata: { a: [1] } },
    ],
    ['bounds', { id: 'x'.repeat(256), url, weight: 100 }, { ...plain, id: 'x'.repeat(256), weight: 100 }],
    ['fields of a newer writer', { url, colour: 'red', __proto__: null }, plain],
    ['Go naming', { Op: 0, Addr: 'h:1', Metadata: { a: 1 } }, { ...plain, metadata: { a: 1 } }],
    ['Go naming with a scheme', { Addr: 'https://h' }, { ...plain, url: 'https://h' }],
    ['Go naming, no metadata', { Op: 0, Addr: 'h:1', Metadata: null }, plain],
    [
      'Go naming, metadata that is no object',
      { Op: 0, Addr: 'h:1', Metadata: 'x' },
      { ...plain, metadata: { Metadata: 'x' } },
    ],
  ])('reads %s', (_name, value, upstream) => {
    expect(decode(value)).toEqual(upstream)
  })

  const notAUrl = 'url: url: expected an http:// or https:// URL without credentials, query or fragment, got'
  it.each<[string, string | object | Buffer, string]>([
    ['nothing', '', `${notAUrl} ""`],
    ['another scheme', 'ftp://h', `${notAUrl} "ftp://h"`],
    ['no scheme', 'h:80', `${notAUrl} "h:80"`],
    ['one slash', 'http:/h', `${notAUrl} "http:/h"`],
    ['no host', 'http://', `${notAUrl} "http://"`],
    ['a port that is none', 'http://h:99999', `${notAUrl} "http://h:99999"`],
    ['a query', `${url}?`, `${notAUrl} "http://h:1?"`],
    ['a fragment', `${url}/#`, `${notAUrl} "http://h:1/#"`],
    ['a tab that the parser would drop', 'http://a\tb', `${notAUrl} "http://a\\tb"`],
    ['a backslash that the parser would turn', 'http://a\\b', `${notAUrl} "http://a\\\\b"`],
    ['credentials, not repeating them', 'http://me:secret@h', `${notAUrl} "http://…@h"`],
    ['odd credentials, not repeating them', 'http://me:sec/ret@h', `${notAUrl} "http://…@h"`],
    ['a user alone', 'http://me@h', `${notAUrl} "http://…@h"`],
    ['a URL that is no text', { url: 7 }, `${notAUrl} 7`],
    ['JSON without a URL', {}, `${notAUrl} undefined`],
    ['broken JSON', '{"url":"http://me:secret@h"', 'json: value: expected JSON, got "{\\"url\\":\\"http…"'],
    ['bytes that are no UTF-8', Buffer.from([0x68, 0xff]), 'json: value: expected UTF-8, got other bytes'],
    ['weight 0', { url, weight: 0 }, 'weight: weight: expected a number above 0 and at most 100, got 0'],
    [
      'weight 100.1',
      { url, weight: 100.1 },
      'weight: weight: expected a number above 0 and at most 100, got 100.1',
    ],
    [
      'weight as text',
      { url, weight: '2' },
      'weight: weight: expected a number above 0 and at most 100, got "2"',
    ],
    [
      'weight null',
      { url, weight: null },
      'weight: weight: expected a number above 0 and at most 100, got null',
    ],
    [
      'a state that is none',
      { url, state: 'Active' },
      'field: state: expected "active" or "draining" or "warming", got "Active"',
    ],
    [
      'an empty id',
      { url, id: '' },
      'field: id: expected a string of 1 to 256 characters, no control characters, got ""',
    ],
    [
      'a long id',
      { url, id: 'x'.repeat(257) },
      `field: id: expected a string of 1 to 256 characters, no control characters, got "${'x'.repeat(78)}…`,
    ],
    [
      'an id with a line break',
      { url, id: 'a\nb' },
      'field: id: expected a string of 1 to 256 characters, no control characters, got "a\\nb"',
    ],
    [
      'half a surrogate pair',
      { url, id: '\ud800' },
      'field: id: expected a string of 1 to 256 characters, no control characters, got "\\ud800"',
    ],
    [
      'a zone that is no text',
      { url, zone: 1 },
      'field: zone: expected a string of 1 to 256 characters, no control characters, got 1',
    ],
    [
      'metadata that is a list',
      { url, metadata: [] },
      'field: metadata: expected an object that JSON can hold, got []',
    ],
    ['a deletion of Go naming', { Op: 1, Addr: 'h:1' }, 'field: Op: expected 0, got 1'],
  ])('refuses %s', (_name, value, message) => {
    expect(refusal(() => decode(value))).toBe(message)
  })

  it('is total: whatever comes is an upstream or a refusal', () => {
    const value = fc.oneof(
      fc.uint8Array({ maxLength: 64 }).map((bytes) => Buffer.from(bytes)),
      fc.json().map((text) => Buffer.from(text)),
      fc
        .record(
          { url: fc.oneof(fc.webUrl(), fc.anything()), id: fc.anything(), weight: fc.anything() },
          { requiredKeys: [] },
        )
        .map((fields) => Buffer.from(JSON.stringify(fields) ?? '')),
    )
    fc.assert(
      fc.property(value, (bytes) => {
        refusal(() => decodeUpstream(bytes, rules))
        refusal(() => decodeOverride(bytes))
      }),
      { numRuns: 2000 },
    )
  })
})

describe('decodeOverride', () => {
  it('reads what is set and nothing else', () => {
    expect(decodeOverride(Buffer.from('{"weight":3,"state":"draining","url":"http://x"}'))).toEqual({
      weight: 3,
      state: 'draining',
    })
    expect(decodeOverride(Buffer.from('{}'))).toEqual({})
  })
  it.each(['draining', '[]', '7', '{"weight":-1}', '{"state":null}'])('refuses %s', (text) => {
    expect(refusal(() => decodeOverride(Buffer.from(text)))).not.toBe('accepted')
  })
})

describe('hostFilter', () => {
  const may = (allowed: AllowedHosts, text: string) => hostFilter(allowed)(new URL(text))
  it.each<[string, string, boolean]>([
    ['a.example', 'http://a.example', true],
    ['A.Example', 'http://a.example:99', true],
    ['a.example', 'http://b.a.example', false],
    ['a.example', 'http://a.example.', false],
    ['a.example:80', 'http://a.example', true],
    ['a.example:80', 'https://a.example', false],
    ['a.example:443', 'https://a.example', true],
    ['*.example', 'http://b.a.example:1', true],
    ['*.example', 'http://example', false],
    ['*.example', 'http://badexample', false],
    ['127.0.0.1', 'http://2130706433', true],
    ['[::1]', 'http://[0:0::1]:8', true],
    ['[::1]:9', 'http://[::1]:8', false],
  ])('%s, %s: %s', (entry, text, verdict) => {
    expect(may([entry], text)).toBe(verdict)
  })
  it('asks a function, and refuses what that or the list does not have', () => {
    expect(may((url) => url.port === '1', url)).toBe(true)
    const refused = refusal(() =>
      decodeUpstream(Buffer.from('http://169.254.169.254'), { ...rules, mayHaveHost: hostFilter(['h']) }),
    )
    expect(refused).toBe('host: url: expected a host among allowedHosts, got "169.254.169.254:80"')
  })
  it.each([['http://h'], [''], ['*'], ['a b'], ['h/p'], ['a*.b']])('refuses the entry %j', (entry) => {
    expect(() => hostFilter([entry])).toThrow(OptionsError)
  })
  it('refuses what is no list', () => {
    expect(() => hostFilter('h' as never)).toThrow(
      'allowedHosts: expected a list of hosts or a function, got "h"',
    )
  })
})

describe('parseUpstream', () => {
  const parse = (input: unknown) => parseUpstream(input, { mayHaveHost: () => true })
  it.each<[unknown, object]>([
    ['http://h:1', { id: 'h:1', url, weight: 1 }],
    ['http://h', { id: 'h:80', url: 'http://h' }],
    ['https://h/base', { id: 'h:443', url: 'https://h/base' }],
    ['a=http://h:1', { id: 'a', url }],
    ['a=http://h:1*2.5', { id: 'a', url, weight: 2.5 }],
    ['http://h:1*2', { id: 'h:1', url, weight: 2 }],
    ['h:1=http://h:1/x=y', { id: 'h:1', url: 'http://h:1/x=y' }],
    ['http://h:1/a=http://b', { id: 'h:1', url: 'http://h:1/a=http://b' }],
    [
      { url, weight: 3, zone: 'z' },
      { id: 'h:1', url, weight: 3, zone: 'z' },
    ],
    [{ url: 'http://h:1/a*b' }, { id: 'h:1', url: 'http://h:1/a*b' }],
  ])('reads %j', (input, upstream) => {
    expect(parse(input)).toMatchObject(upstream)
  })
  it.each<[unknown, string]>([
    ['http://h*', 'weight: weight: expected a number above 0 and at most 100, got ""'],
    ['http://h*0x10', 'weight: weight: expected a number above 0 and at most 100, got "0x10"'],
    ['=http://h', 'field: id: expected a string of 1 to 256 characters, no control characters, got ""'],
    [
      undefined,
      'field: upstream: expected an object or a string such as "id=http://host:port*weight", got undefined',
    ],
    [[], 'field: upstream: expected an object or a string such as "id=http://host:port*weight", got []'],
  ])('refuses %j', (input, message) => {
    expect(refusal(() => parse(input))).toBe(message)
  })
  it('names the option', () => {
    expect(() => upstreamOption('topology[2]', { url, weight: 0 }, rules)).toThrow(
      new OptionsError('topology[2]: weight: expected a number above 0 and at most 100, got 0'),
    )
  })
})
