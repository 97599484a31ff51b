import { Counter, Registry } from 'prom-client'
import { expect, test } from 'vitest'
import { type ConsistentHashProxyOptions, consistentHashProxy } from '../../src/index.ts'
import { metricOf, seriesOf } from '../support/metrics.ts'
import { ScriptedTopology } from '../support/scripted-topology.ts'
import { startGateway, startUpstreams } from '../support/servers.ts'

const upstreams = [{ id: 'u1' }, { id: 'u2' }]
const made = (options: Partial<ConsistentHashProxyOptions> = {}) =>
  consistentHashProxy({ key: 'ip', topology: new ScriptedTopology(upstreams), ...options })

test('two proxies have a registry each', async () => {
  const [one, other] = [made(), made()]
  expect(one.metrics).toBeInstanceOf(Registry)
  expect(one.metrics).not.toBe(other.metrics)
  await Promise.all([one.close(), other.close()])
})

test('two proxies in one registry of the caller, told apart by their prefix; closing takes out their own only', async () => {
  const registry = new Registry()
  new Counter({ name: 'app_things_total', help: 'not ours', registers: [registry] }).inc()
  const one = made({ metrics: { registry, prefix: 'one_' } })
  const other = made({ metrics: { registry, prefix: 'other_' } })
  expect(one.metrics).toBe(registry)
  const families = async () =>
    new Set([...(await registry.metrics()).matchAll(/^# TYPE ([a-z]+)_/gm)].map(([, family]) => family))
  expect(await families()).toEqual(new Set(['app', 'one', 'other']))
  await one.close()
  expect(await families()).toEqual(new Set(['app', 'other']))
  expect((await seriesOf(other, 'other_')).find(({ name }) => name === 'source_up')?.value).toBe(1)
  await other.close()
  expect(await families()).toEqual(new Set(['app']))
})

test('`metrics: false`: none', async () => {
  const proxy = made({ metrics: false })
  expect(proxy.metrics).toBeUndefined()
  await proxy.ready()
  expect(proxy.status().upstreams).toHaveLength(2)
  await proxy.close()
})

test('the number of series depends on the upstreams alone, and no label or log tells a key', async () => {
  const servers = await startUpstreams(['u1', 'u2', 'u3'], (request, response) => {
    response.writeHead(Number(new URL(request.url ?? '', 'http://x').searchParams.get('status'))).end()
  })
  const topology = new ScriptedTopology(servers.map(({ id, url }) => ({ id, url })))
  const logged: string[] = []
  const note = (fields: object, message: string) => void logged.push(JSON.stringify([fields, message]))
  const logger = { debug: note, info: note, warn: note, error: note }
  const { proxy, url } = await startGateway({
    ...{ key: 'header:x-user-id', topology, logger },
    circuitBreaker: { consecutiveFailures: 3 },
    retry: { statuses: [503], backoff: { baseMs: 0, maxMs: 0 } },
  })
  await proxy.ready()
  const statuses = [200, 204, 301, 404, 418, 500, 502, 503]
  const sendAll = async (prefix: string) => {
    for (let index = 0; index < 80; index += 1) {
      const path = `/${prefix}${index}?status=${statuses[index % statuses.length]}`
      await fetch(url + path, { headers: { 'x-user-id': `${prefix}-secret-${index}` }, redirect: 'manual' })
    }
  }
  await sendAll('alpha')
  await servers[2]?.stop()
  await sendAll('beta')
  const count = (await seriesOf(proxy)).length
  await sendAll('gamma')
  const series = await seriesOf(proxy)
  // Which outcomes an upstream has had may still grow; what a client sends adds nothing.
  expect(series.length - count).toBeLessThan(20)
  const values = new Set(series.flatMap(({ labels }) => Object.values(labels).map(String)))
  expect([...values].filter((value) => !/^(|u[123]|[a-z-]+|[2-5]xx|[\d.]+|4\+|\+Inf)$/.test(value))).toEqual(
    [],
  )
  expect(await metricOf(proxy, 'requests_total')).toBe(240)
  expect(logged.length).toBeGreaterThan(5)
  expect(logged.join('\n')).not.toMatch(/secret/)
  expect(await proxy.metrics?.metrics()).not.toMatch(/secret|alpha|beta|gamma/)
})
