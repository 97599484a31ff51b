import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'
import { OptionsError, TopologySourceError } from '../../src/errors.ts'
import { fileTopology } from '../../src/topology/file.ts'
import { staticTopology } from '../../src/topology/static.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { Followed } from './follow.ts'

describe('staticTopology', () => {
  it('is there at once, sorted, and the same for the same upstreams', async () => {
    const gateway = new Followed(staticTopology(['b=http://h:2*2', { url: 'http://h:1', zone: 'z' }]))
    expect(gateway.topologies).toHaveLength(1)
    expect(gateway.latest).toMatchObject({ epoch: 0, revision: 0n, degraded: false })
    expect(gateway.latest.upstreams).toEqual([
      { id: 'b', url: 'http://h:2', weight: 2, state: 'active' },
      { id: 'h:1', url: 'http://h:1', weight: 1, state: 'active', zone: 'z' },
    ])
    const other = new Followed(staticTopology([{ url: 'http://h:1', zone: 'z' }, 'b=http://h:2*2']))
    expect(other.latest).toEqual(gateway.latest)
    expect(new Followed(staticTopology(['b=http://h:2*3'])).latest.id).not.toBe(gateway.latest.id)
    await gateway.feed.refresh()
    await gateway.feed.close()
    await gateway.feed.close()
    expect(gateway.statuses.map(({ state }) => state)).toEqual(['live', 'closed'])
    expect(other.feed.status).toEqual({ state: 'live' })
  })

  it.each<[unknown, string]>([
    [[], 'topology: expected a list of at least one upstream, got []'],
    ['http://h', 'topology: expected a list of at least one upstream, got "http://h"'],
    [['http://h', 'http://h:80'], 'topology[1]: expected an id of its own, got "h:80" again'],
    [
      ['http://h', { url: 'http://i', weight: -1 }],
      'topology[1]: weight: expected a number above 0 and at most 100, got -1',
    ],
  ])('refuses %j', (upstreams, message) => {
    expect(() => staticTopology(upstreams as never)).toThrow(new OptionsError(message))
  })
})

describe('fileTopology', () => {
  const folder = mkdtempSync(join(tmpdir(), 'file-topology-'))
  const path = join(folder, 'upstreams.json')
  let clock: ManualClock
  let followed: Followed
  afterAll(() => rmSync(folder, { recursive: true }))
  beforeEach(() => {
    rmSync(path, { force: true })
    clock = new ManualClock()
  })
  afterEach(() => followed.feed.close())

  const open = (options = {}) => {
    followed = new Followed(fileTopology({ path, ...options }), { clock })
    return followed
  }
  const write = (content: unknown) =>
    writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content))

  it('follows the file, also one renamed into place', async () => {
    write(['a=http://h:1', { id: 'b', url: 'http://h:2' }])
    const gateway = open()
    await gateway.untilLive()
    expect(gateway.latest).toMatchObject({ epoch: 0, revision: 1n, degraded: false })
    expect(gateway.ids).toEqual(['a', 'b'])
    const { id } = gateway.latest
    writeFileSync(`${path}.new`, JSON.stringify({ upstreams: ['c=http://h:3'] }))
    renameSync(`${path}.new`, path)
    await expect.poll(() => clock.pendingTimers).toBe(1)
    clock.advance(999)
    expect(clock.pendingTimers).toBe(1)
    clock.advance(1)
    await gateway.untilIds('c')
    expect(gateway.latest).toMatchObject({ revision: 2n })
    expect(gateway.latest.id).not.toBe(id)
    await gateway.feed.refresh()
    expect(gateway.topologies).toHaveLength(2)
  })

  it('waits for a file that is not there yet', async () => {
    const gateway = open()
    await gateway.until(() => gateway.statuses.length > 0)
    expect(gateway.feed.status).toMatchObject({
      state: 'connecting',
      error: expect.stringContaining('ENOENT'),
    })
    write([])
    await gateway.feed.refresh()
    expect(gateway.latest.upstreams).toEqual([])
    expect(gateway.feed.status).toEqual({ state: 'live' })
  })

  it.each(['[', '7', '{"servers":[]}', ''])(
    'keeps the last topology while the file is %j',
    async (content) => {
      write(['a=http://h:1'])
      const gateway = open()
      await gateway.untilLive()
      write(content)
      await expect(gateway.feed.refresh()).rejects.toThrow(TopologySourceError)
      expect(gateway.feed.status).toMatchObject({ state: 'lost', error: expect.stringContaining(path) })
      expect(gateway.ids).toEqual(['a'])
      write(['a=http://h:1'])
      await gateway.feed.refresh()
      expect(gateway.feed.status).toEqual({ state: 'live' })
      expect(gateway.topologies).toHaveLength(1)
    },
  )

  it('refuses entries one by one, once, and keeps the last good one of an id', async () => {
    write([{ id: 'a', url: 'http://h:1' }, 'b=http://h:2'])
    const gateway = open({ allowedHosts: ['h'] })
    await gateway.untilLive()
    write([
      { id: 'a', url: 'http://h:1', weight: 0 },
      'b=http://h:2',
      'b=http://h:3',
      'c=http://evil',
      { id: 'd' },
    ])
    await gateway.feed.refresh()
    expect(gateway.latest.upstreams.map(({ id, url }) => `${id}=${url}`)).toEqual([
      'a=http://h:1',
      'b=http://h:2',
    ])
    expect(gateway.latest.degraded).toBe(true)
    write([{ id: 'a', url: 'http://h:1', weight: 0 }, 'd=http://h:4'])
    await gateway.feed.refresh()
    expect(gateway.ids).toEqual(['a', 'd'])
    expect(gateway.refused.map(([entry, { reason }]) => `${entry} ${reason}`)).toEqual([
      'upstreams[0] weight',
      'upstreams[2] duplicate',
      'upstreams[3] host',
      'upstreams[4] url',
    ])
  })

  it('shares one read, and leaves no timer', async () => {
    write(['a=http://h:1'])
    const gateway = open()
    expect(gateway.feed.refresh()).toBe(gateway.feed.refresh())
    await gateway.untilLive()
    await expect.poll(() => clock.pendingTimers).toBe(1)
    await gateway.feed.close()
    expect(clock.pendingTimers).toBe(0)
    await expect(gateway.feed.refresh()).rejects.toThrow('closed')
    expect(gateway.statuses.map(({ state }) => state)).toEqual(['live', 'closed'])
  })

  it.each([
    [{ path: '' }, 'path: expected the path of a JSON file, got ""'],
    [{ pollIntervalMs: 0 }, 'pollIntervalMs: expected 1 to 2147483647 milliseconds, got 0'],
    [
      { allowedHosts: ['*'] },
      'allowedHosts[0]: expected a host, host:port or *.suffix without a scheme, got "*"',
    ],
  ])('refuses the options %j', (options, message) => {
    expect(() => open(options)).toThrow(new OptionsError(message))
  })
})
