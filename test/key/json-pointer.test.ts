import { expect, test } from 'vitest'
import { compilePointer } from '../../src/key/json-pointer.ts'

test.each([['/constructor'], ['/__proto__'], ['/toString'], ['/a/constructor']])(
  '%s finds nothing that the client did not send',
  (pointer) => {
    expect(compilePointer(pointer)?.({ a: {} })).toBeUndefined()
  },
)

test('whole members are found too, and the document itself', () => {
  const document = { a: [{ b: null }] }
  expect(compilePointer('')?.(document)).toBe(document)
  expect(compilePointer('/a/0')?.(document)).toBe(document.a[0])
  expect(compilePointer('/a/0/b')?.(document)).toBeNull()
  expect(compilePointer('/a/0/b/c')?.(document)).toBeUndefined()
})

test.each([['a'], ['~'], ['/~'], ['/~2'], ['/a~'], ['#/a']])('%s is no pointer', (pointer) => {
  expect(compilePointer(pointer)).toBeUndefined()
})
