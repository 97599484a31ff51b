import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { startEtcd } from '../support/etcd.ts'
import { eventually } from '../support/servers.ts'
import { build, start, startGatewayProgram } from './program.ts'

beforeAll(build)

test('upstreams register in etcd and serve; one that is stopped drains first: no request fails', async () => {
  const etcd = await startEtcd({ auth: true })
  onTestFinished(() => etcd.stop())
  const environment = {
    ETCD_HOSTS: etcd.endpoint,
    ETCD_USERNAME: etcd.auth?.username ?? '',
    ETCD_PASSWORD: etcd.auth?.password ?? '',
  }
  const upstreams = ['a', 'b', 'c'].map((ID) => start('upstream', { ...environment, ID }))
  const { program, url, adminUrl } = await startGatewayProgram(environment)
  for (const upstream of upstreams) await upstream.prints(/is registered below/)
  const members = async () => {
    const { upstreams } = (await (await fetch(`${adminUrl}/status`)).json()) as {
      upstreams: { id: string; state: string }[]
    }
    return upstreams.map(({ id, state }) => `${id} ${state}`).join()
  }
  await eventually('three upstreams', async () => (await members()) === 'a active,b active,c active')

  let stopped = false
  const statuses = new Map<number, number>()
  const ids: (string | null)[] = []
  const client = async (user: number) => {
    for (let request = 0; !stopped; request += 1) {
      const answer = await fetch(url, {
        method: 'POST',
        headers: { 'x-user-id': `${user}-${request % 30}` },
        body: 'x',
      })
      await answer.text()
      statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1)
      ids.push(answer.headers.get('x-upstream-id'))
    }
  }
  const clients = Promise.all([1, 2, 3, 4].map(client))
  await eventually('answers of all three', () => new Set(ids).size === 3)
  const leaving = upstreams[1]?.stop()
  await eventually('b to drain', async () => (await members()).includes('b draining'))
  expect(await leaving).toBe(0)
  await eventually('b to be gone', async () => (await members()) === 'a active,c active')
  const from = ids.length
  await eventually('a hundred answers more', () => ids.length > from + 100)
  stopped = true
  await clients
  expect([...statuses.keys()]).toEqual([200])
  expect(new Set(ids.slice(from))).toEqual(new Set(['a', 'c']))

  expect(await Promise.all([program, ...upstreams].map((each) => each.stop()))).toEqual([0, 0, 0, 0])
})

test('an upstream without etcd serves, and says that it is not registered', async () => {
  const upstream = start('upstream', { ID: 'a', ETCD_HOSTS: 'http://127.0.0.1:1', WEIGHT: '2' })
  const url = await upstream.prints(/Upstream a on (\S+)/)
  expect(await (await fetch(`${url}/path`)).text()).toBe('a got GET /path, its request number 1\n')
  await eventually('the warning', () => /not registered in etcd/.test(upstream.stderr))
  expect(await upstream.stop()).toBe(0)
})

test('an upstream with a bad value ends with one line for each', async () => {
  const upstream = start('upstream', { WEIGHT: '0', PORT: 'x' })
  expect(await upstream.ended()).toBe(1)
  expect(upstream.stderr).toBe(
    "PORT: expected a port from 0 to 65535 (0: any free one), got 'x'\n" +
      "WEIGHT: expected a number from 0.01 to 100, got '0'\n",
  )
})
