import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decodeUpstream } from '../../src/topology/decode.ts'
import { EntryTable } from '../../src/topology/entry-table.ts'
import type { Topology } from '../../src/topology/topology.ts'
import { type Change, type Listing, type SetContents, UpstreamSet } from '../../src/topology/upstream-set.ts'

function makeSet() {
  const refused: string[] = []
  const inner = new UpstreamSet({
    prefix: '/p/',
    decode: (value, name) => decodeUpstream(value, { defaultId: name, mayHaveHost: () => true }),
    onRefused: (key, { reason }) => refused.push(`${key} ${reason}`),
  })
  // Changed or not is all that folding says: here each change is looked at.
  const set = {
    get revision() {
      return inner.revision
    },
    list: (...told: Parameters<UpstreamSet['list']>) => (inner.list(...told) ? inner.topology() : undefined),
    apply: (changes: readonly Change[]) => (inner.apply(changes) ? inner.topology() : undefined),
    contents: () => inner.contents(),
    restore: (contents: SetContents) => inner.restore(contents),
    topology: () => inner.topology(),
  }
  return { set, refused }
}
const put = (revision: number, key: string, value: string) => ({
  key,
  revision: BigInt(revision),
  value: Buffer.from(value),
})
const remove = (revision: number, key: string): Change => ({
  key,
  revision: BigInt(revision),
  value: undefined,
})
const listing = (revision: number | bigint, ...entries: Listing['entries']): Listing => ({
  clusterId: '1',
  revision: BigInt(revision),
  entries,
})
const text = (topology: Topology | undefined) =>
  topology?.upstreams.map(({ id, url, weight, state }) => `${id}=${url}*${weight} ${state}`)

describe('UpstreamSet', () => {
  it('folds any mixture of batches and listings into what one fresh listing gives', () => {
    const key = fc.constantFrom(
      ...[
        'upstreams/a',
        'upstreams/b',
        'upstreams/\u00ff',
        'overrides/a',
        'overrides/same',
        'slots/x',
        'upstreams/',
      ],
    )
    const value = fc.constantFrom(
      ...[
        'http://h',
        'http://h:2',
        '{"id":"same","url":"http://h:3"}',
        '{"id":"a","url":"http://h:4","weight":2}',
      ],
      ...['{"weight":7}', '{"state":"draining"}', '{}', 'nonsense'],
    )
    const edit = fc.record({ key, value: fc.option(value, { nil: undefined }) })
    // What reaches us of the history: batches of 1 to 3 revisions, some of them twice, some replaced by a listing.
    const step = fc.record({
      transactions: fc.array(
        fc.uniqueArray(edit, { minLength: 1, maxLength: 3, selector: (one) => one.key }),
        { minLength: 1, maxLength: 3 },
      ),
      arrives: fc.constantFrom('batch', 'listing', 'listing then batch', 'batch then listing', 'batch twice'),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
        const store = new Map<string, Change & { value: Buffer }>()
        const { set } = makeSet()
        let revision = 1n
        let latest = set.list(listing(1n), 0n)
        const take = (topology: Topology | undefined) => {
          if (topology !== undefined && latest !== undefined) {
            // Newer than all before it, each time.
            expect(topology.revision > latest.revision).toBe(true)
          }
          latest = topology ?? latest
        }
        for (const { transactions, arrives } of steps) {
          const known = set.revision
          const batch: Change[] = []
          for (const edits of transactions) {
            revision += 1n
            for (const { key, value } of edits) {
              if (value === undefined) {
                store.delete(key)
                batch.push({ key, revision, value })
              } else {
                store.set(key, { key, revision, value: Buffer.from(value) })
                batch.push({ key, revision, value: Buffer.from(value) })
              }
            }
          }
          for (const word of arrives.split(' then ')) {
            if (word === 'listing') take(set.list(listing(revision, ...store.values()), known))
            else take(set.apply(batch))
            if (word === 'batch twice') take(set.apply(batch))
          }
          expect(set.revision).toBe(revision)
        }
        const fresh = makeSet().set.list(listing(revision, ...store.values()), 0n)
        // Last good values are all that history may add, and then both say so.
        if (!fresh?.degraded) expect(text(latest)).toEqual(text(fresh))
        expect(latest?.degraded).toBe(fresh?.degraded)
        expect(latest?.id).toBe(fresh?.id)
        expect(latest?.epoch).toBe(0)
      }),
      { numRuns: 500 },
    )
  })

  it('says nothing when nothing changed', () => {
    const { set } = makeSet()
    expect(text(set.list(listing(5, put(3, 'upstreams/a', 'http://h')), 0n))).toEqual(['a=http://h*1 active'])
    expect(set.list(listing(9, put(3, 'upstreams/a', 'http://h')), 5n)).toBeUndefined()
    expect(set.revision).toBe(9n)
    expect(set.list(listing(9, put(3, 'upstreams/a', 'http://h')), 9n)).toBeUndefined()
    expect(set.apply([put(9, 'upstreams/b', 'http://h')])).toBeUndefined()
    expect(
      set.apply([remove(10, 'slots/x'), put(10, 'upstreams', 'http://h'), put(10, '', 'x')]),
    ).toBeUndefined()
    expect(set.apply([remove(11, 'upstreams/none')])).toBeUndefined()
    expect(set.revision).toBe(11n)
    expect(set.apply([put(12, 'upstreams/a', 'http://h')])).toMatchObject({ epoch: 0, revision: 12n })
  })

  it('tells a listing that was overtaken from one whose revisions went back', () => {
    const { set } = makeSet()
    set.list(listing(5, put(3, 'upstreams/a', 'http://h')), 0n)
    set.apply([put(8, 'upstreams/b', 'http://h')])
    expect(set.list(listing(7, put(3, 'upstreams/a', 'http://h')), 5n)).toBeUndefined()
    expect(set.revision).toBe(8n)
    const wiped = set.list(listing(7, put(2, 'upstreams/c', 'http://h')), 8n)
    expect(wiped).toMatchObject({ epoch: 1, revision: 2n })
    expect(set.revision).toBe(7n)
    expect(text(wiped)).toEqual(['c=http://h*1 active'])
    expect(set.list(listing(6), 7n)).toMatchObject({ epoch: 2, revision: 6n, upstreams: [] })
  })

  it('says the revision of its last change, whoever else writes to the store', () => {
    const [{ set: old }, { set: young }] = [makeSet(), makeSet()]
    const [a, b, other] = [
      put(3, 'upstreams/a', 'http://h'),
      put(4, 'overrides/a', '{}'),
      put(9, 'slots/x', 'x'),
    ]
    old.list(listing(2), 0n)
    expect(old.topology().revision).toBe(2n)
    old.apply([a])
    old.apply([b])
    expect(old.apply([other])).toBeUndefined()
    expect(young.list(listing(12, a, b, other), 0n)?.revision).toBe(4n)
    expect(old.topology()).toEqual(young.topology())
    // A deletion that only the listing shows happened at some time until then.
    expect(old.list(listing(13, a), 12n)?.revision).toBe(13n)
  })

  it('keeps revisions that no double can hold', () => {
    const { set } = makeSet()
    const high = 2n ** 60n
    set.list(listing(high), 0n)
    expect(set.apply([{ ...put(0, 'upstreams/a', 'http://h'), revision: high }])).toBeUndefined()
    const topology = set.apply([{ ...put(0, 'upstreams/a', 'http://h'), revision: high + 1n }])
    expect(topology?.revision).toBe(1152921504606846977n)
  })

  it('has another id for another cluster', () => {
    const { set } = makeSet()
    const first = set.list(listing(5), 0n)
    expect(set.list({ ...listing(6), clusterId: '2' }, 5n)?.id).not.toBe(first?.id)
  })

  it('sorts by id whatever the order of keys, and gives a shared id to the bytewise smaller key', () => {
    const { set, refused } = makeSet()
    // U+FFFD is below U+10000 in UTF-8 and above it in UTF-16.
    const keys = ['\u{10000}', '\ufffd'].map((name) => `upstreams/${Buffer.from(name).toString('latin1')}`)
    const topology = set.list(
      listing(
        5,
        put(2, keys[0] ?? '', '{"id":"same","url":"http://late"}'),
        put(3, 'upstreams/z', '{"id":"a","url":"http://h"}'),
        put(4, keys[1] ?? '', '{"id":"same","url":"http://early"}'),
      ),
      0n,
    )
    expect(text(topology)).toEqual(['a=http://h*1 active', 'same=http://early*1 active'])
    expect(topology?.degraded).toBe(true)
    expect(refused).toEqual(['upstreams/\u{10000} duplicate'])
    set.apply([put(6, 'upstreams/y', 'http://h')])
    expect(refused).toHaveLength(1)
  })

  it('merges an override by id, also one that came first, and holds the last good override', () => {
    const { set, refused } = makeSet()
    set.list(listing(5, put(2, 'overrides/é', '{"weight":9}')), 0n)
    expect(
      set.apply([put(6, `overrides/${Buffer.from('é').toString('latin1')}`, '{"weight":3}')])?.upstreams,
    ).toEqual([])
    expect(text(set.apply([put(7, 'upstreams/k', '{"id":"é","url":"http://h","weight":2}')]))).toEqual([
      'é=http://h*3 active',
    ])
    const held = set.apply([put(8, `overrides/${Buffer.from('é').toString('latin1')}`, 'bad')])
    expect(text(held)).toEqual(['é=http://h*3 active'])
    expect(held?.degraded).toBe(true)
    expect(refused).toEqual(['overrides/é json'])
  })

  it('restores what it knew: the last good values, its epoch, and that revisions may go back', () => {
    const { set } = makeSet()
    expect(set.contents()).toBeUndefined()
    set.list(listing(5, put(3, 'upstreams/a', 'http://h'), put(4, 'upstreams/bad', 'nonsense')), 0n)
    set.list(listing(4, put(3, 'upstreams/a', 'http://h'), put(4, 'overrides/a', '{"weight":3}')), 5n)
    set.apply([put(6, 'upstreams/a', 'nonsense')])
    const contents = set.contents()
    expect(contents?.entries.map(({ key, value }) => `${key} ${value}`)).toEqual([
      'upstreams/a http://h',
      'overrides/a {"weight":3}',
    ])
    const { set: restored } = makeSet()
    if (contents) restored.restore(contents)
    expect(restored.topology()).toEqual({ ...set.topology(), degraded: false })
    expect(restored.topology()).toMatchObject({ epoch: 1, revision: 6n })
    expect(restored.list(listing(5), restored.revision)?.epoch).toBe(2)
  })

  it('keeps neither bad values nor the messages that good ones came in', () => {
    const table = new EntryTable<string>(
      (_key, value) => {
        if (value.length > 100) throw new Error('too long for this test'.repeat(100))
        return value.toString()
      },
      (_key, error) => messages.push(error.message),
    )
    const messages: string[] = []
    const message = Buffer.alloc(1_000_000, 'x')
    expect(table.put('good', message.subarray(0, 10), 1n)).toBe(true)
    expect(table.put('bad', message.subarray(0, 60_000), 1n)).toBe(true)
    expect(table.put('worse', message, 1n)).toBe(true)
    expect(table.put('worse', Buffer.from(message), 1n)).toBe(false)
    expect(table.put('good', message, 2n)).toBe(true)
    for (const [, { value, refused }] of table.inOrder()) {
      expect((value?.buffer.byteLength ?? 0) + (refused?.length ?? 0)).toBeLessThan(10_000)
    }
    expect(table.get('good')?.good).toBe('xxxxxxxxxx')
    expect(messages).toEqual([
      expect.stringMatching(/^value: expected one that decodes, got .{200}$/),
      'value: expected at most 65536 bytes, got 1000000',
      'value: expected at most 65536 bytes, got 1000000',
    ])
  })
})
