import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { capEjections } from '../../src/balancer/ejection-cap.ts'
import type { EjectionCause } from '../../src/breaker/failure-kind.ts'

interface Named {
  readonly name: string
  readonly weight: number
}

const [a, b, c, d] = ['a', 'b', 'c', 'd'].map((name) => ({ name, weight: 1 })) as [Named, Named, Named, Named]

function cap(upstreams: readonly Named[], ejected: readonly [Named, EjectionCause][], percent = 50) {
  const { excluded, lastResort, panic } = capEjections(upstreams, new Map(ejected), percent)
  const names = (set: ReadonlySet<Named>) =>
    [...set]
      .map(({ name }) => name)
      .sort()
      .join('')
  return { excluded: names(excluded), lastResort: names(lastResort), panic }
}

describe('bad answers', () => {
  it('hold up to half of the weight, in the order in which they came', () => {
    expect(
      cap(
        [a, b, c, d],
        [
          [c, 'answers'],
          [a, 'answers'],
        ],
      ),
    ).toEqual({ excluded: 'ac', lastResort: '', panic: false })
    expect(
      cap(
        [a, b, c, d],
        [
          [c, 'answers'],
          [a, 'answers'],
          [d, 'answers'],
        ],
      ),
    ).toEqual({
      excluded: 'ac',
      lastResort: 'd',
      panic: true,
    })
  })

  it('envoyproxy/envoy#38815: one of two is exactly half, which is no panic', () => {
    expect(cap([a, b], [[a, 'answers']])).toEqual({ excluded: 'a', lastResort: '', panic: false })
  })

  it('hold for the first beyond the cap when another is eligible', () => {
    const heavy = { name: 'h', weight: 100 }
    expect(cap([a, heavy], [[heavy, 'answers']])).toEqual({ excluded: 'h', lastResort: '', panic: false })
    expect(cap([a, b, c], [[a, 'answers']], 0)).toEqual({ excluded: 'a', lastResort: '', panic: false })
    expect(
      cap(
        [a, b, c],
        [
          [a, 'answers'],
          [b, 'answers'],
        ],
        10,
      ),
    ).toEqual({ excluded: 'a', lastResort: 'b', panic: true })
  })

  it('do not hold for the first beyond the cap when no other is eligible', () => {
    const heavy = { name: 'h', weight: 100 }
    expect(
      cap(
        [a, heavy],
        [
          [heavy, 'answers'],
          [a, 'connect'],
        ],
      ),
    ).toEqual({ excluded: 'a', lastResort: 'h', panic: true })
  })

  it('do not hold for a heavy first one when all others are ejected too', () => {
    const heavy = { name: 'h', weight: 100 }
    const ejected: [Named, EjectionCause][] = [
      [heavy, 'answers'],
      [a, 'answers'],
    ]
    expect(cap([a, heavy], ejected)).toEqual({ excluded: '', lastResort: 'ah', panic: true })
  })

  it('let none overtake one that is above the cap', () => {
    const heavy = { name: 'h', weight: 9 }
    const ejected: [Named, EjectionCause][] = [
      [a, 'answers'],
      [heavy, 'answers'],
      [b, 'answers'],
    ]
    expect(cap([a, b, c, heavy], ejected)).toEqual({ excluded: 'a', lastResort: 'bh', panic: true })
  })

  it('are compared without rounding: 0.1 + 0.2 is half of 0.3 + 0.2 + 0.1', () => {
    const [x, y, z] = [0.3, 0.2, 0.1].map((weight, index) => ({ name: 'xyz'.charAt(index), weight })) as [
      Named,
      Named,
      Named,
    ]
    expect(y.weight + z.weight, 'an example that discriminates').toBeGreaterThan(
      (x.weight + y.weight + z.weight) / 2,
    )
    const ejected: [Named, EjectionCause][] = [
      [y, 'answers'],
      [z, 'answers'],
    ]
    expect(cap([x, y, z], ejected)).toEqual({ excluded: 'yz', lastResort: '', panic: false })
  })
})

describe('failed connects', () => {
  it('are outside the cap', () => {
    const ejected: [Named, EjectionCause][] = [
      [a, 'connect'],
      [b, 'connect'],
      [c, 'connect'],
    ]
    expect(cap([a, b, c, d], ejected)).toEqual({ excluded: 'abc', lastResort: '', panic: false })
    expect(
      cap(
        [a, b, c, d],
        [
          [a, 'connect'],
          [b, 'answers'],
          [c, 'answers'],
        ],
      ),
    ).toEqual({
      excluded: 'abc',
      lastResort: '',
      panic: false,
    })
  })

  it('leave the last upstream that can be connected to', () => {
    expect(
      cap(
        [a, b],
        [
          [b, 'answers'],
          [a, 'connect'],
        ],
      ),
    ).toEqual({ excluded: 'a', lastResort: 'b', panic: true })
  })
})

it('never ejects a single upstream', () => {
  for (const cause of ['connect', 'answers'] as const) {
    expect(cap([a], [[a, cause]])).toEqual({ excluded: '', lastResort: 'a', panic: true })
  }
})

it('is at peace when nothing is ejected', () => {
  expect(cap([a, b], [])).toEqual({ excluded: '', lastResort: '', panic: false })
  expect(cap([], [])).toEqual({ excluded: '', lastResort: '', panic: false })
})

it('keeps its laws for any set', () => {
  const member = fc.record({
    weight: fc.integer({ min: 1, max: 100 }),
    cause: fc.constantFrom<EjectionCause | undefined>(undefined, 'answers', 'connect'),
    order: fc.nat(),
  })
  fc.assert(
    fc.property(fc.array(member, { minLength: 2, maxLength: 12 }), fc.nat(100), (members, percent) => {
      const inOrder = members.filter(({ cause }) => cause !== undefined).sort((x, y) => x.order - y.order)
      const ejected = new Map(inOrder.map((one) => [one, one.cause ?? 'answers']))
      const { excluded, lastResort } = capEjections(members, ejected, percent)
      for (const one of members) {
        expect(Number(excluded.has(one)) + Number(lastResort.has(one))).toBe(one.cause === undefined ? 0 : 1)
        if (one.cause === 'connect') expect(excluded.has(one)).toBe(true)
      }
      const held = inOrder.filter((one) => one.cause === 'answers' && excluded.has(one))
      const total = members.reduce((sum, { weight }) => sum + weight, 0)
      const heldWeight = held.reduce((sum, { weight }) => sum + weight, 0)
      if (held.length > 1) expect(heldWeight * 100).toBeLessThanOrEqual(percent * total)
      if (members.some(({ cause }) => cause !== 'connect')) expect(excluded.size).toBeLessThan(members.length)
    }),
  )
})
