import { readFileSync } from 'node:fs'
import { beforeAll, describe, expect, it } from 'vitest'
import { HashRing } from '../../src/ring/hash-ring.ts'
import { xxh64Ready } from '../../src/ring/xxh64.ts'

interface Golden {
  readonly name: string
  readonly virtualNodes: number
  readonly seed: string
  readonly hashTags: boolean
  readonly members: readonly { readonly id: string; readonly weight: number }[]
  readonly points: readonly (readonly [id: string, number: number, position: string])[]
  readonly keys: readonly (readonly [key: string, position: string, owners: readonly string[]])[]
}

const MAX = 2n ** 64n - 1n
const golden: readonly Golden[] = JSON.parse(
  readFileSync(new URL('../golden/ring-native.json', import.meta.url), 'utf8'),
)

describe.each(golden)('golden ring: $name', ({ virtualNodes, seed, hashTags, members, points, keys }) => {
  let ring: HashRing
  beforeAll(async () => {
    await xxh64Ready()
    ring = new HashRing(members, { virtualNodes, seed: BigInt(seed), hashTags })
  })
  const sorted = points
    .map(([id, , position]) => ({ id, position: BigInt(`0x${position}`) }))
    .sort((a, b) => (a.position < b.position ? -1 : 1))

  it('has exactly these points: probed on each, one past, past the last, at 0 and at 2^64 - 1', () => {
    expect(ring.size).toBe(sorted.length)
    const ownerOf = (position: bigint) => ring.members[ring.memberAt(ring.firstPoint(position))]?.id
    sorted.forEach(({ id, position }, index) => {
      const next = (index + 1) % sorted.length
      expect(ring.firstPoint(position)).toBe(index)
      expect(ownerOf(position)).toBe(id)
      expect(ring.firstPoint(position + 1n)).toBe(next)
      expect(ownerOf(position + 1n)).toBe(sorted[next]?.id)
    })
    expect(ring.firstPoint(0n)).toBe(0)
    expect(ring.firstPoint(MAX)).toBe(sorted.at(-1)?.position === MAX ? sorted.length - 1 : 0)
  })

  it('places every key as recorded', () => {
    for (const [key, position, owners] of keys) {
      expect([key, ring.position(key)]).toEqual([key, BigInt(`0x${position}`)])
      expect([key, ring.owner(key)]).toEqual([key, owners[0]])
      expect([key, ring.owners(key, 3)]).toEqual([key, owners])
    }
  })
})

it('the golden file can tell: every upstream of any weight owns some of its keys', () => {
  for (const { members, keys } of golden) {
    const owners = new Set(keys.flatMap(([, , [first]]) => first))
    // An upstream of weight 0.001 has one point and may own none of 200 keys.
    for (const { id, weight } of members) if (weight > 0.01) expect(owners).toContain(id)
    expect(keys.length).toBe(200)
  }
})
