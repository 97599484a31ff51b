import { createServer } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { EtcdConnectionOptions } from '../../src/topology/etcd/connection.ts'
import { etcdTopology } from '../../src/topology/etcd/etcd-topology.ts'
import { registerUpstream } from '../../src/topology/etcd/register.ts'
import { type EtcdProcess, startEtcd } from '../support/etcd.ts'
import { Followed } from './follow.ts'

const prefix = '/access/'
let plain: EtcdProcess
let secure: EtcdProcess
let stranger: EtcdProcess
let followed: Followed | undefined

beforeAll(async () => {
  ;[plain, secure, stranger] = await Promise.all([
    startEtcd({ auth: true }),
    startEtcd({ auth: true, tls: true }),
    startEtcd({ tls: true }),
  ])
  await plain.client.role('gateway').create()
  await plain.client.role('gateway').grant({ permission: 'Read', range: plain.client.range({ prefix }) })
  await plain.client.user('gateway').create('gateway')
  await plain.client.user('gateway').addRole('gateway')
})
afterAll(() => Promise.all([plain, secure, stranger].map((etcd) => etcd.stop())))
afterEach(() => followed?.feed.close())

const open = (options: Partial<EtcdConnectionOptions>) => {
  followed = new Followed(etcdTopology({ hosts: plain.endpoint, prefix, ...options }))
  return followed
}
const required = <T>(value: T | undefined): T => {
  if (value === undefined) throw new Error('expected a value')
  return value
}

describe('authentication', () => {
  it('reads with a role for the prefix, before and after a restart that forgets all tokens', async () => {
    await plain.put(`${prefix}upstreams/u1`, 'http://10.0.0.1')
    const gateway = open({ auth: { username: 'gateway', password: 'gateway' } })
    await gateway.untilIds('u1')
    await gateway.untilLive()
    await plain.restart()
    await plain.put(`${prefix}upstreams/u2`, 'http://10.0.0.2')
    await gateway.untilIds('u1', 'u2')
    await gateway.untilLive()
  })

  it.each<[string, Partial<EtcdConnectionOptions>, RegExp]>([
    [
      'a wrong password',
      { auth: { username: 'gateway', password: 'guess' } },
      /refuses user "gateway": check user name and password/,
    ],
    ['no user', {}, /wants authentication: set the option auth/],
    [
      'a prefix not permitted',
      { auth: { username: 'gateway', password: 'gateway' }, prefix: '/other/' },
      /does not permit this to user "gateway"/,
    ],
  ])('names %s', async (_name, options, message) => {
    const gateway = open(options)
    await gateway.until(() => gateway.statuses.length > 0)
    expect(gateway.feed.status).toEqual({ state: 'connecting', error: expect.stringMatching(message) })
    expect(gateway.feed.status).toMatchObject({ error: expect.stringContaining(plain.endpoint) })
    expect(JSON.stringify(gateway.statuses)).not.toContain('guess')
  })

  it('says that a registration may not write', async () => {
    const registration = registerUpstream({
      hosts: plain.endpoint,
      prefix,
      auth: { username: 'gateway', password: 'gateway' },
      upstream: 'u9=http://10.0.0.9',
    })
    await expect
      .poll(() => registration.status, { timeout: 3000 })
      .toEqual({
        state: 'connecting',
        error: expect.stringContaining('does not permit this to user "gateway"'),
      })
    await registration.close()
  })
})

describe('TLS', () => {
  it('follows and registers with CA, client certificate and user', async () => {
    const access = { hosts: secure.endpoint, tls: required(secure.tls), auth: required(secure.auth) }
    const gateway = open(access)
    await gateway.untilLive()
    const registration = registerUpstream({ ...access, prefix, upstream: 'u1=http://10.0.0.1', drainMs: 0 })
    await registration.ready()
    await gateway.untilIds('u1')
    await registration.close()
    await gateway.untilIds()
  })

  it.each<[string, () => Partial<EtcdConnectionOptions>, RegExp]>([
    [
      'a CA that is not the server’s',
      () => ({ hosts: stranger.endpoint, tls: required(secure.tls) }),
      /failed the TLS handshake: check ca, cert and key/,
    ],
    ['no CA', () => ({ hosts: secure.endpoint }), /failed the TLS handshake/],
    [
      'no client certificate',
      () => ({ hosts: secure.endpoint, tls: { ca: required(secure.tls).ca } }),
      /failed the TLS handshake.*bad certificate/,
    ],
    [
      'https to a server that speaks http',
      () => ({ hosts: plain.endpoint.replace('http', 'https') }),
      /failed the TLS handshake/,
    ],
    [
      'http to a server that speaks https',
      () => ({ hosts: secure.endpoint.replace('https', 'http') }),
      /does it want https:/,
    ],
  ])('names %s', async (_name, options, message) => {
    const gateway = open(options())
    await gateway.until(() => gateway.statuses.length > 0)
    expect(gateway.feed.status).toEqual({ state: 'connecting', error: expect.stringMatching(message) })
  })

  it('tells a port without HTTP/2 behind it', async () => {
    const web = createServer((socket) => socket.on('error', () => {}).end('HTTP/1.1 400 Bad Request\r\n\r\n'))
    await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve))
    const address = web.address()
    const gateway = open({ hosts: `http://127.0.0.1:${typeof address === 'object' && address?.port}` })
    await gateway.until(() => gateway.statuses.length > 0)
    expect(gateway.feed.status).toMatchObject({ error: expect.stringContaining('does not speak HTTP/2') })
    web.close()
  })
})
