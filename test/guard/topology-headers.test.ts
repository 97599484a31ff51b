import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  decodeAttempt,
  decodeKeyHash,
  decodeRingOwner,
  decodeTopologyStamp,
  encodeAttempt,
  encodeKeyHash,
  encodeRingOwner,
  encodeTopologyStamp,
  topologyHeaderNames,
} from '../../src/topology-headers.ts'

const ID = fc.string({ unit: 'binary', minLength: 1, maxLength: 60 })
const HEADER_SAFE = /^[!-~]+$/

describe('x-topology', () => {
  it('is readable', () => {
    const stamp = { id: 'shop', epoch: 0, revision: 42n, digest: '0123456789abcdef' }
    expect(encodeTopologyStamp(stamp)).toBe('id=shop;epoch=0;revision=42;digest=0123456789abcdef')
  })

  it('comes back as it went, for any id and the largest revision of etcd', () => {
    const stamps = fc.record({
      id: ID,
      epoch: fc.nat(),
      revision: fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }),
      digest: fc.stringMatching(/^[0-9a-f]{16}$/),
    })
    fc.assert(
      fc.property(stamps, (stamp) => {
        const text = encodeTopologyStamp(stamp)
        expect(text).toMatch(HEADER_SAFE)
        expect(decodeTopologyStamp(text)).toEqual(stamp)
      }),
    )
  })

  it('is not misread when an id looks like the rest of it', () => {
    const stamp = {
      id: 'a;epoch=9;revision=9;digest=ffffffffffffffff',
      epoch: 1,
      revision: 2n,
      digest: '0'.repeat(16),
    }
    expect(decodeTopologyStamp(encodeTopologyStamp(stamp))).toEqual(stamp)
  })

  const good = 'id=a;epoch=0;revision=1;digest=0123456789abcdef'
  it.each([
    undefined,
    '',
    [good],
    `${good}, ${good}`,
    `${good} `,
    `${good}\n`,
    good.toUpperCase(),
    good.replace('id=a', 'id='),
    good.replace('id=a', 'id=%'),
    good.replace('id=a', 'id=%61'),
    good.replace('id=a', 'id=%3b'),
    good.replace('id=a', 'id=%C3'),
    good.replace('id=a', 'id=é'),
    good.replace('id=a', 'id=a b'),
    good.replace('id=a', `id=${'a'.repeat(5_000)}`),
    good.replace('epoch=0', 'epoch=-1'),
    good.replace('epoch=0', 'epoch=00'),
    good.replace('epoch=0', 'epoch=1e3'),
    good.replace('epoch=0', 'epoch=9999999999999999'),
    good.replace('revision=1', 'revision='),
    good.replace('revision=1', 'revision=01'),
    good.replace('revision=1', 'revision=0x1'),
    good.replace('revision=1', `revision=${'1'.repeat(20)}`),
    good.replace('f', ''),
    good.replace('f', 'ff'),
    'digest=0123456789abcdef;id=a;epoch=0;revision=1',
  ])('refuses %j', (value) => {
    expect(decodeTopologyStamp(good)).toBeDefined()
    expect(decodeTopologyStamp(value)).toBeUndefined()
  })
})

describe('x-ring-owner', () => {
  it('leaves what is header safe as it is', () => {
    for (const id of ['10.0.0.1:8080', 'shop/eu-1', 'a,b']) {
      expect(encodeRingOwner(id)).toBe(id)
    }
  })

  it('comes back as it went, header safe, for any id', () => {
    fc.assert(
      fc.property(ID, (id) => {
        expect(encodeRingOwner(id)).toMatch(HEADER_SAFE)
        expect(decodeRingOwner(encodeRingOwner(id))).toBe(id)
      }),
    )
    expect(decodeRingOwner(encodeRingOwner('50%25\r\nx: y\u0000\u007f'))).toBe('50%25\r\nx: y\u0000\u007f')
    expect(decodeRingOwner(encodeRingOwner('a\ud800'))).toBe('a\ufffd')
  })

  it.each([undefined, '', ['a'], 'a, b', '%', '%zz', '%e9', 'é', '%41', 'x'.repeat(4_097)])(
    'refuses %j',
    (value) => {
      expect(decodeRingOwner(value)).toBeUndefined()
    },
  )
})

describe('x-key-hash and x-attempt', () => {
  it('come back as they went', () => {
    for (const position of [0n, 1n, 2n ** 63n, 2n ** 64n - 1n]) {
      expect(encodeKeyHash(position)).toHaveLength(16)
      expect(decodeKeyHash(encodeKeyHash(position))).toBe(position)
    }
    for (const attempt of [1, 3, 999]) expect(decodeAttempt(encodeAttempt(attempt))).toBe(attempt)
  })

  it.each([
    undefined,
    '',
    ['0'.repeat(16)],
    '0',
    '0'.repeat(15),
    '0'.repeat(17),
    'F'.repeat(16),
    '0x00000000000001',
  ])('refuse %j', (value) => {
    expect(decodeKeyHash(value)).toBeUndefined()
  })

  it.each([undefined, '', '0', '-1', '01', '1.5', '1000', '1, 2'])('refuse the attempt %j', (value) => {
    expect(decodeAttempt(value)).toBeUndefined()
  })
})

it('lists all its names in lower case, for stripping', () => {
  expect([...topologyHeaderNames]).toEqual(['x-topology', 'x-ring-owner', 'x-key-hash', 'x-attempt'])
})
