import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { OptionsError } from '../../src/errors.ts'
import { type Logger, silentLogger } from '../../src/logger.ts'
import { DiskSnapshot, parseSnapshotFile } from '../../src/topology/disk-snapshot.ts'
import { decodeSnapshot, encodeSnapshot } from '../../src/topology/snapshot-format.ts'
import type { SetContents } from '../../src/topology/upstream-set.ts'
import { ManualClock } from '../support/manual-clock.ts'

const prefix = '/p/'
let folder: string
let path: string
let clock: ManualClock
let warnings: string[]

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'snapshot-test-'))
  path = join(folder, 'topology')
  clock = new ManualClock()
  warnings = []
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const contentsAt = (epoch: number, revision: bigint): SetContents => ({
  ...{ clusterId: '14841639068965178418', epoch, revision },
  entries: [{ key: 'upstreams/\xc3\xa9', revision: 2n ** 60n, value: Buffer.from([0, 255, 10, 13]) }],
})
const snapshotAt = (epoch: number, revision: bigint, readAt = Date.now()) =>
  encodeSnapshot({ prefix, readAt, contents: contentsAt(epoch, revision) })

function openFile(options = {}, of = prefix): DiskSnapshot {
  const logger: Logger = { ...silentLogger, warn: (_fields, message) => warnings.push(message) }
  return new DiskSnapshot({ path, ...options }, of, { clock, logger })
}
async function write(epoch: number, revision: bigint): Promise<void> {
  const file = openFile()
  file.save(contentsAt(epoch, revision))
  await file.close()
}

describe('the format', () => {
  it('gives back what was put in', () => {
    const snapshot = { prefix, readAt: 1_700_000_000_000, contents: contentsAt(3, 2n ** 61n) }
    expect(decodeSnapshot(encodeSnapshot(snapshot))).toEqual(snapshot)
  })

  it('takes no file that is cut short or damaged anywhere', () => {
    const bytes = Buffer.from(snapshotAt(0, 7n))
    fc.assert(
      fc.property(fc.nat(bytes.length - 1), fc.nat(7), (at, bit) => {
        expect(() => decodeSnapshot(bytes.subarray(0, at).toString())).toThrow('expected')
        const damaged = Buffer.from(bytes)
        damaged[at] = (damaged[at] ?? 0) ^ (1 << bit)
        expect(() => decodeSnapshot(damaged.toString())).toThrow('expected')
      }),
    )
  })

  it.each([
    ['prefix', ''],
    ['epoch', -1],
    ['revision', '1e9'],
    ['revision', 7],
    ['entries', {}],
    ['entries', [['key']]],
  ])('takes no %s %j, whatever the checksum', async (field, value) => {
    const { createHash } = await import('node:crypto')
    const [title = '', body = ''] = snapshotAt(0, 7n).split('\n')
    const forged = JSON.stringify({ ...JSON.parse(body), [field]: value })
    const checksum = createHash('sha256').update(forged).digest('hex')
    const text = `${title.slice(0, -64)}${checksum}\n${forged}`
    if (field === 'prefix') expect(decodeSnapshot(text).prefix).toBe('')
    else expect(() => decodeSnapshot(text)).toThrow('expected')
  })
})

describe('loading', () => {
  it('gives what was saved', async () => {
    await write(1, 7n)
    const loaded = await openFile().load()
    expect(loaded).toMatchObject({ prefix, contents: contentsAt(1, 7n) })
    expect(Date.now() - (loaded?.readAt ?? 0)).toBeLessThan(5000)
    expect(readdirSync(folder)).toEqual(['topology'])
    expect(warnings).toEqual([])
  })

  it.each<[string, () => void, object, RegExp]>([
    ['no file', () => {}, {}, /cannot be used: ENOENT/],
    ['an empty file', () => writeFileSync(path, ''), {}, /expected a file that begins .* got ""$/],
    ['another file', () => writeFileSync(path, '{"format":2}'), {}, /expected a file that begins/],
    ['half a file', () => writeFileSync(path, snapshotAt(0, 7n).slice(0, -9)), {}, /cut short or damaged/],
    [
      'another prefix',
      () => writeFileSync(path, snapshotAt(0, 7n).replaceAll('', '')),
      { of: '/q/' },
      /expected a snapshot of "\/q\/", got one of "\/p\/"/,
    ],
    [
      'an old one',
      () => writeFileSync(path, snapshotAt(0, 7n, Date.now() - 5000)),
      { maxAgeMs: 4000 },
      /expected one of at most 4000 ms, got one of 5\d\d\d ms/,
    ],
  ])(
    'logs %s in one line, and goes on without',
    async (_name, prepare, { of, ...options }: { of?: string }, message) => {
      prepare()
      const file = openFile(options, of)
      expect(await file.load()).toBeUndefined()
      expect(warnings).toEqual([expect.stringMatching(message)])
      expect(file.problem).toMatch(message)
    },
  )

  it('takes one as old as it may be', async () => {
    writeFileSync(path, snapshotAt(0, 7n, Date.now() - 1000))
    expect(await openFile({ maxAgeMs: 60_000 }).load()).toBeDefined()
  })
})

describe('saving', () => {
  it('writes the last of many changes, once', async () => {
    const file = openFile()
    for (let revision = 1n; revision <= 100n; revision += 1n) file.save(contentsAt(0, revision))
    expect(clock.pendingTimers).toBe(1)
    clock.advance(999)
    expect(readdirSync(folder)).toEqual([])
    clock.advance(1)
    await file.close()
    expect((await openFile().load())?.contents.revision).toBe(100n)
    expect(clock.pendingTimers).toBe(0)
  })

  it('never puts an older reading over a newer one', async () => {
    await write(1, 7n)
    for (const [epoch, revision] of [
      [1, 6n],
      [0, 99n],
    ] as const) {
      await write(epoch, revision)
      expect((await openFile().load())?.contents).toMatchObject({ epoch: 1, revision: 7n })
    }
    for (const [epoch, revision] of [
      [1, 7n],
      [1, 8n],
      [2, 1n],
    ] as const) {
      await write(epoch, revision)
      expect((await openFile().load())?.contents).toMatchObject({ epoch, revision })
    }
  })

  it('puts a good one over what cannot be used', async () => {
    writeFileSync(path, 'garbage')
    await write(0, 7n)
    expect(readFileSync(path, 'utf8')).toContain('sha256')
  })

  it('leaves nothing behind and says so once when it cannot write', async () => {
    const file = openFile({ path: join(folder, 'none', 'topology') })
    for (let round = 0; round < 3; round += 1) {
      file.save(contentsAt(0, BigInt(round)))
      await file.close()
    }
    expect(warnings).toEqual([expect.stringMatching(/cannot be written: ENOENT/)])
    expect(readdirSync(folder)).toEqual([])
  })
})

describe('parseSnapshotFile', () => {
  it.each([
    ['', 'snapshotFile: expected the path of a file, got ""'],
    [{ path: 7 as never }, 'snapshotFile: expected the path of a file, got 7'],
    [{ path: 'x', maxAgeMs: 0 }, 'snapshotFile.maxAgeMs: expected 1 to 2147483647 milliseconds, got 0'],
  ])('refuses %j', (option, message) => {
    expect(() => parseSnapshotFile(option)).toThrow(new OptionsError(message))
  })
  it('takes a path alone', () => {
    expect(parseSnapshotFile('x')).toEqual({ path: 'x' })
    expect(parseSnapshotFile(undefined)).toBeUndefined()
  })
})
