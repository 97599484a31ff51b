import { describe, expect, it } from 'vitest'
import { hashTag } from '../../src/ring/hash-tag.ts'

describe('hashTag', () => {
  it.each([
    ['cart:{user:123}:7', 'user:123'],
    ['{a}{b}', 'a'],
    ['{{a}}', '{a'],
    ['}{a}', 'a'],
    ['{}{b}', '{}{b}'],
    ['{open', '{open'],
    ['close}', 'close}'],
    ['plain', 'plain'],
    ['', ''],
  ])('of %j is %j', (key, tag) => {
    expect(hashTag(key)).toBe(tag)
  })
})
