// One proxy of the benchmark, in a process of its own. Argument: its `ProxySettings` as JSON.
import { greet } from './greet.ts'
import type { CreateProxy, ProxySettings } from './proxy-settings.ts'

const settings = JSON.parse(process.argv[2] ?? '') as ProxySettings

/** A process loads the one that it is, so that none pays for another's modules. */
const kinds: Record<ProxySettings['kind'], () => Promise<{ create: CreateProxy }>> = {
  ours: () => import('./peers/ours.ts'),
  'http-proxy': () => import('./peers/http-proxy.ts'),
  undici: () => import('./peers/undici.ts'),
  fastify: () => import('./peers/fastify.ts'),
  'http-proxy-middleware': () => import('./peers/http-proxy-middleware.ts'),
}

await greet(async () => [await (await kinds[settings.kind]()).create(settings)])
