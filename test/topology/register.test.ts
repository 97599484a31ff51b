import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { ClosedError, OptionsError } from '../../src/errors.ts'
import { etcdTopology } from '../../src/topology/etcd/etcd-topology.ts'
import type { Registration } from '../../src/topology/etcd/leased-registration.ts'
import { type RegisterUpstreamOptions, registerUpstream } from '../../src/topology/etcd/register.ts'
import { type EtcdProcess, startEtcd } from '../support/etcd.ts'
import { Followed } from './follow.ts'

let etcd: EtcdProcess
let prefix: string
let count = 0
const registrations: Registration[] = []

beforeAll(async () => {
  etcd = await startEtcd()
})
afterAll(() => etcd.stop())
beforeEach(() => {
  count += 1
  prefix = `/register/${count}/`
})
afterEach(async () => {
  await Promise.all(registrations.splice(0).map((registration) => registration.close()))
})

function register(options: Partial<RegisterUpstreamOptions> = {}): Registration {
  const upstream = { id: 'u1', url: 'http://10.0.0.1:80', weight: 2, zone: 'z', metadata: { rack: 7 } }
  const registration = registerUpstream({
    hosts: etcd.endpoint,
    prefix,
    upstream,
    ttlSeconds: 1,
    drainMs: 0,
    ...options,
  })
  registrations.push(registration)
  return registration
}
const entries = () => etcd.client.getAll().prefix(`${prefix}upstreams/`)
const entry = async () =>
  (await entries().exec()).kvs.map(({ key, value, lease }) => ({
    key: `${key}`,
    lease,
    ...JSON.parse(`${value}`),
  }))

describe('registerUpstream', () => {
  it('registers under a lease, drains, and is gone after close', async () => {
    const gateway = new Followed(etcdTopology({ hosts: etcd.endpoint, prefix }))
    await gateway.untilLive()
    const registration = register({ drainMs: 300 })
    expect(registration.status).toEqual({ state: 'connecting' })
    await registration.ready()
    expect(registration.status).toEqual({ state: 'live' })
    const expected = {
      id: 'u1',
      url: 'http://10.0.0.1',
      weight: 2,
      state: 'active',
      zone: 'z',
      metadata: { rack: 7 },
    }
    expect(await entry()).toEqual([
      { key: `${prefix}upstreams/u1`, lease: expect.not.stringMatching(/^0$/), ...expected },
    ])
    await gateway.until(() => gateway.upstream('u1') !== undefined)
    expect(gateway.upstream('u1')).toEqual(expected)

    await registration.drain()
    await gateway.until(() => gateway.upstream('u1')?.state === 'draining')
    const begin = performance.now()
    await Promise.all([registration.close(), registration.close()])
    expect(performance.now() - begin).toBeGreaterThan(290)
    expect(registration.status).toEqual({ state: 'closed' })
    expect(await entry()).toEqual([])
    await gateway.untilIds()
    await gateway.feed.close()
  })

  it('outlives its TTL many times over', async () => {
    await register().ready()
    const [before] = await entry()
    await new Promise((resolve) => setTimeout(resolve, 2500))
    expect(await entry()).toEqual([before])
  })

  it('registers anew when its lease is revoked by somebody else', async () => {
    const registration = register({ ttlSeconds: 2 })
    await registration.ready()
    const [before] = await entry()
    await etcd.client.leaseClient.leaseRevoke({ ID: before?.lease })
    expect(await entry()).toEqual([])
    await expect.poll(entry, { timeout: 3000 }).toHaveLength(1)
    expect(registration.status).toEqual({ state: 'live' })
    const [after] = await entry()
    expect(after).toEqual({ ...before, lease: after?.lease })
    expect(after?.lease).not.toBe(before?.lease)
  })

  it('registers anew, as one key, after etcd was away for longer than the TTL (microsoft/etcd3#17, etcd-io/etcd#12203)', async () => {
    const registration = register()
    await registration.ready()
    await registration.drain()
    await etcd.kill()
    await expect.poll(() => registration.status.state, { timeout: 3000 }).toBe('lost')
    await new Promise((resolve) => setTimeout(resolve, 1500))
    await etcd.start()
    await expect.poll(() => registration.status.state, { timeout: 5000 }).toBe('live')
    // Whatever lease is left of the life before has expired by then.
    await new Promise((resolve) => setTimeout(resolve, 1500))
    expect(await entry()).toMatchObject([{ id: 'u1', state: 'draining' }])
  })

  it('takes over from a predecessor that died', async () => {
    await etcd.put(`${prefix}upstreams/u1`, 'http://10.9.9.9')
    await register().ready()
    expect(await entry()).toMatchObject([{ url: 'http://10.0.0.1' }])
  })

  it('leaves a successor’s key alone, in drain, close and re-registration', async () => {
    const old = register()
    await old.ready()
    const [before] = await entry()
    const successor = register({ upstream: 'u1=http://10.0.0.2' })
    await successor.ready()
    await expect(old.drain()).rejects.toThrow(/not registered by us/)
    await etcd.client.leaseClient.leaseRevoke({ ID: before?.lease })
    await expect
      .poll(() => old.status, { timeout: 3000 })
      .toMatchObject({ state: 'lost', error: expect.stringContaining('a successor registered') })
    await old.close()
    expect(await entry()).toMatchObject([{ url: 'http://10.0.0.2', state: 'active' }])
    await successor.close()
    expect(await entry()).toEqual([])
  })

  it('leaves nothing behind, in whatever moment of registering it is closed', async () => {
    for (let delay = 0; delay < 12; delay += 1) {
      const registration = register()
      await new Promise((resolve) => setTimeout(resolve, delay))
      await registration.close()
      expect(await entry()).toEqual([])
    }
  })

  it('believes no longer in its lease than the lease lasts', async () => {
    // As after a pause of the whole process: time has passed, but no timer has fired yet.
    let asleep = 0
    const clock = { ...systemClock, now: () => systemClock.now() + asleep }
    const registration = register({ clock, ttlSeconds: 2 })
    await registration.ready()
    asleep = 2100
    expect(registration.status).toEqual({ state: 'lost', error: 'no keepalive for over 2 s' })
    await expect.poll(() => registration.status.state).toBe('live')
  })

  it('waits for etcd, says so, and can be closed meanwhile', async () => {
    const registration = register({ hosts: 'http://127.0.0.1:1' })
    const ready = expect(registration.ready()).rejects.toThrow(ClosedError)
    await expect
      .poll(() => registration.status)
      .toMatchObject({ state: 'connecting', error: expect.stringContaining('ECONNREFUSED') })
    await expect(registration.drain()).rejects.toThrow(/not registered by us now \(connecting\)/)
    await registration.close()
    await ready
  })

  it.each([
    [{ ttlSeconds: 0.5 }, 'ttlSeconds: expected a whole number of at least 1, got 0.5'],
    [{ drainMs: -1 }, 'drainMs: expected 0 to 2147483647 milliseconds, got -1'],
    [
      { upstream: 'u1=ftp://h' },
      /^upstream: url: expected an http:\/\/ or https:\/\/ URL .*, got "ftp:\/\/h"$/,
    ],
    [{ hosts: [] }, 'hosts: expected at least one etcd host, got []'],
  ])('refuses the options %o', (options, message) => {
    expect(() => register(options)).toThrow(OptionsError)
    expect(() => register(options)).toThrow(message)
  })
})
