import { inspect } from 'node:util'
import { describe, expect, it } from 'vitest'
import { OptionsError } from '../../src/errors.ts'
import { HashRing } from '../../src/ring/hash-ring.ts'
import { MAX_POINTS } from '../../src/ring/members.ts'

describe('HashRing', () => {
  it('sorts its members by code unit, and counts their virtual nodes', () => {
    const ring = new HashRing([
      'b',
      { id: 'a', weight: 2 },
      { id: 'é', weight: 0.001 },
      'Z',
      { id: '10' },
      '9',
    ])
    expect(ring.members).toEqual([
      { id: '10', weight: 1, virtualNodes: 160 },
      { id: '9', weight: 1, virtualNodes: 160 },
      { id: 'Z', weight: 1, virtualNodes: 160 },
      { id: 'a', weight: 2, virtualNodes: 320 },
      { id: 'b', weight: 1, virtualNodes: 160 },
      { id: 'é', weight: 0.001, virtualNodes: 1 },
    ])
    expect(ring.size).toBe(961)
  })

  it('is empty without complaint', () => {
    const ring = new HashRing([])
    expect([ring.size, ring.firstPoint(7n), ring.memberAt(0), ring.memberAt(-1), ring.share(0)]).toEqual([
      0, -1, -1, -1, 0,
    ])
    expect(ring.owner('key')).toBeUndefined()
    expect(ring.owners('key', 3)).toEqual([])
    expect(ring.shares()).toEqual(new Map())
    expect(ring.with(['a']).with([]).digest).toBe(ring.digest)
  })

  it('gives the only upstream everything', () => {
    for (const virtualNodes of [1, 2, 160]) {
      const ring = new HashRing(['only'], { virtualNodes })
      expect(ring.share(0)).toBe(1)
      expect(ring.owners('key', 2)).toEqual(['only'])
    }
  })

  it('lists as many distinct owners as asked for and as there are', () => {
    const ring = new HashRing(['a', 'b', 'c'])
    expect(ring.owners('key', 0)).toEqual([])
    expect(ring.owners('key', 1)).toEqual([ring.owner('key')])
    expect(ring.owners('key', 9).sort()).toEqual(['a', 'b', 'c'])
  })

  it('gives tied points to the smaller id: two ids that differ only in a lone surrogate', () => {
    const ring = new HashRing(['\ud801', '\ud800'])
    expect(ring.owners('key', 2)).toEqual(['\ud800', '\ud801'])
    expect(ring.shares()).toEqual(
      new Map([
        ['\ud800', 1],
        ['\ud801', 0],
      ]),
    )
    expect(ring.with(['\ud801']).with(['\ud801', '\ud800']).owner('key')).toBe('\ud800')
  })

  it('tells exact shares: the arcs between points, summing to 1', () => {
    const ring = new HashRing(['a', { id: 'b', weight: 3 }, 'c'], { virtualNodes: 50, seed: 3 })
    const arcs = new Map<string, bigint>()
    let previous = 0n
    // Finds each point by bisection through the public lookup, so that the sum is independent of the arrays.
    for (let point = 0; point < ring.size; point++) {
      let [before, at] = [previous - 1n, 2n ** 64n - 1n]
      while (at - before > 1n) {
        const middle = (before + at) / 2n
        if (ring.firstPoint(middle) > point || (middle > previous && ring.firstPoint(middle) === 0))
          at = middle
        else before = middle
      }
      const position = before
      const id = ring.members[ring.memberAt(point)]?.id ?? ''
      arcs.set(id, (arcs.get(id) ?? 0n) + position - (point === 0 ? -1n : previous))
      previous = position
    }
    const first = ring.members[ring.memberAt(0)]?.id ?? ''
    arcs.set(first, (arcs.get(first) ?? 0n) + 2n ** 64n - 1n - previous)
    for (const [id, arc] of arcs) expect(ring.shares().get(id)).toBeCloseTo(Number(arc) / 2 ** 64, 14)
    expect([...ring.shares().values()].reduce((sum, share) => sum + share)).toBeCloseTo(1, 14)
  })

  it('is changed in place of nothing: `with` leaves the ring alone, and gives it back for the same members', () => {
    const ring = new HashRing(['a', { id: 'b', weight: 2 }])
    const owners = ring.owners('key', 2)
    expect(
      ring.with([
        { id: 'b', weight: 2 },
        { id: 'a', weight: 1 },
      ]),
    ).toBe(ring)
    expect(ring.with(['a', 'b'])).not.toBe(ring)
    ring.with(['x', 'y'])
    expect(ring.owners('key', 2)).toEqual(owners)
  })

  it('is changed step by step, each of them short, with nothing to see before the last', () => {
    const ring = new HashRing(['a'])
    const ids = Array.from({ length: 200 }, (_, index) => `upstream-${index}`)
    const steps = ring.withInSteps(ids)
    let count = 0
    let step = steps.next()
    for (; !step.done; step = steps.next()) count += 1
    expect(step.value.digest).toBe(new HashRing(ids).digest)
    expect(step.value.shares()).toEqual(new HashRing(ids).shares())
    expect(ring.members.map(({ id }) => id)).toEqual(['a'])
    // 32,000 points to hash, a thousand or so in one step.
    expect(count).toBeGreaterThan(25)
  })

  it('keeps its options over a change', () => {
    const options = { virtualNodes: 20, seed: 2n ** 64n - 1n, hashTags: true }
    const ring = new HashRing(['a'], options).with(['b', 'c'])
    expect(ring.options).toEqual({ ...options, hash: 'xxh64' })
    expect(ring.digest).toBe(new HashRing(['b', 'c'], options).digest)
    expect(ring.position('x{tag}')).toBe(ring.position('tag'))
  })

  it('takes one seed as number or bigint', () => {
    expect(new HashRing(['a'], { seed: 5 }).digest).toBe(new HashRing(['a'], { seed: 5n }).digest)
  })

  it('does not print its seed', () => {
    expect(inspect(new HashRing(['a'], { seed: 123456789 }), { depth: 9, showHidden: true })).not.toContain(
      '123456789',
    )
  })
})

describe('HashRing.digest', () => {
  const digest = (...args: ConstructorParameters<typeof HashRing>) => new HashRing(...args).digest

  it('is part of the placement contract', () => {
    // printf '%s' '["native","xxh64","0",160,false,[["a",1],["b",1]]]' | sha256sum | cut -c1-16
    expect(digest(['b', 'a'])).toBe('d705c41c20b52d7b')
    expect(digest([])).toMatch(/^[0-9a-f]{16}$/)
  })

  it('changes with everything that changes the placement, and with nothing else', () => {
    const all = [
      digest(['a', 'b']),
      digest(['a', 'c']),
      digest(['ab']),
      digest(['a,b']),
      digest(['a', 'b', 'c']),
      digest(['a', { id: 'b', weight: 2 }]),
      digest(['a', 'b'], { virtualNodes: 161 }),
      digest(['a', 'b'], { seed: 1 }),
      digest(['a', 'b'], { hashTags: true }),
    ]
    expect(new Set(all).size).toBe(all.length)
    expect(
      digest([{ id: 'b', weight: 1 }, 'a'], { virtualNodes: 160, seed: 0n, hashTags: false, hash: 'xxh64' }),
    ).toBe(all[0])
  })
})

describe('HashRing refuses', () => {
  const mistakes: [string, () => unknown, RegExp][] = [
    ['no virtual nodes', () => new HashRing([], { virtualNodes: 0 }), /`virtualNodes`.*from 1 to 10000.*`0`/],
    ['too many virtual nodes', () => new HashRing([], { virtualNodes: 10_001 }), /`10001`/],
    ['half a virtual node', () => new HashRing([], { virtualNodes: 1.5 }), /`1.5`/],
    ['a negative seed', () => new HashRing([], { seed: -1 }), /`seed`.*from 0 to 2\^64 - 1/],
    ['a seed of 65 bits', () => new HashRing([], { seed: 2n ** 64n }), /`seed`/],
    [
      'a seed that a number cannot hold',
      () => new HashRing([], { seed: 2 ** 53 }),
      /`seed`.*bigint above 2\^53/,
    ],
    ['half a seed', () => new HashRing([], { seed: 0.5 }), /`seed`/],
    ['another hash', () => new HashRing([], JSON.parse('{"hash":"md5"}')), /`hash`.*'xxh64'.*`md5`/],
    [
      'a text for hashTags',
      () => new HashRing([], JSON.parse('{"hashTags":"no"}')),
      /`hashTags`.*boolean.*`no`/,
    ],
    ['an id twice', () => new HashRing(['a', 'b', { id: 'a', weight: 2 }]), /`a` twice/],
    ['an empty id', () => new HashRing(['']), /`id`.*non-empty/],
    ['an id that is no string', () => new HashRing(JSON.parse('[{"id":7}]')), /`id`.*`7`/],
    [
      'weight 0',
      () => new HashRing([{ id: 'a', weight: 0 }]),
      /`weight` of member `a`.*above 0 and at most 100.*`0`/,
    ],
    ['weight above 100', () => new HashRing([{ id: 'a', weight: 100.1 }]), /`100.1`/],
    ['weight NaN', () => new HashRing([{ id: 'a', weight: Number.NaN }]), /`NaN`/],
    ['a single string', () => new HashRing('abc'), /`members`.*list/],
    ['no members at all', () => Reflect.construct(HashRing, []), /`members`.*list.*`undefined`/],
    [
      'a misspelt option, which would place otherwise',
      () => new HashRing([], JSON.parse('{"virtualnodes":500}')),
      /exists, got `virtualnodes`: did you mean `virtualNodes`/,
    ],
    ['the same in `with`', () => new HashRing(['a']).with(['b', 'b']), /`b` twice/],
    [
      'too many points',
      () =>
        new HashRing(
          Array.from({ length: 9 }, (_, id) => ({ id: `${id}`, weight: 100 })),
          { virtualNodes: 10_000 },
        ),
      new RegExp(`at most ${MAX_POINTS}.*9000000`),
    ],
  ]
  it.each(mistakes)('%s', (_, build, message) => {
    expect(build).toThrow(OptionsError)
    expect(build).toThrow(message)
  })

  it('nothing at the bounds', () => {
    expect(new HashRing([{ id: 'a', weight: 100 }], { virtualNodes: 1 }).size).toBe(100)
    expect(new HashRing(['a'], { virtualNodes: 10_000, seed: 2n ** 64n - 1n }).size).toBe(10_000)
    expect(new HashRing(['a'], { seed: Number.MAX_SAFE_INTEGER }).options.seed).toBe(2n ** 53n - 1n)
  })

  it('a key that is no string', () => {
    const ring = new HashRing(['a'])
    expect(() => Reflect.apply(ring.owner, ring, [7])).toThrow(/key to be a string, got a number/)
  })

  it('but keeps a secret seed out of its message', () => {
    expect(() => new HashRing([], { seed: 2n ** 64n + 12_345n })).not.toThrow(/18446744073709563961|12345/)
  })
})
