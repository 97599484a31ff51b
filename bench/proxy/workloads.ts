import { uniformKeys, zipfKeys } from './keys.ts'
import type { LoadGenerator, Requests } from './load.ts'
import { eventLoad, webSocketLoad } from './streams.ts'

/** What proxies are asked for, and which of them. */
export interface Workload {
  readonly title: string
  readonly requests: Requests
  /** Names of the proxies that take part; without it all. */
  readonly contenders?: readonly string[]
  /** What makes the load, where that is not the usual one. */
  readonly load?: LoadGenerator
  /** Measured for the ratios that have bounds. */
  readonly isBounded?: boolean
}

const get = (path: string, keys = uniformKeys()): Requests => ({ method: 'GET', path, bodyBytes: 0, keys })
const transports = ['http-proxy', 'undici', 'ours/http-proxy', 'ours/undici']

export const smallGet: Workload = { title: 'small GET', requests: get('/32'), isBounded: true }

export const megabyte: Workload = {
  title: '1 MB answers',
  requests: get('/1048576'),
  contenders: transports,
  isBounded: true,
}

export const workloads: readonly Workload[] = [
  smallGet,
  megabyte,
  { title: '16 KB answers', requests: get('/16384'), contenders: transports },
  {
    title: 'POST of 4 KB',
    requests: { method: 'POST', path: '/32', bodyBytes: 4_096, keys: uniformKeys() },
    contenders: transports,
  },
  { title: 'small GET, Zipf keys', requests: get('/32', zipfKeys()), contenders: transports },
  {
    title: 'small GET, metrics on (the default) and off',
    requests: get('/32'),
    contenders: [...transports.slice(2), 'ours/http-proxy without metrics', 'ours/undici without metrics'],
  },
  { title: 'server-sent events', requests: get('/events'), contenders: transports, load: eventLoad },
  {
    title: 'WebSocket messages of 100 bytes',
    requests: { method: 'GET', path: '/echo', bodyBytes: 100, keys: [] },
    contenders: ['http-proxy', 'ours/http-proxy'],
    load: webSocketLoad,
  },
]
