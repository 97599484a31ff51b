import type { IncomingMessage, Server } from 'node:http'
import proxy from '@fastify/http-proxy'
import Fastify from 'fastify'
import { agentOptions, type CreateProxy, roundRobin } from '../proxy-settings.ts'

/** `@fastify/http-proxy` as its README has it, over undici; `getUpstream` picks the upstream of each request. */
export const create: CreateProxy = async ({ upstreams }) => {
  const app = Fastify({ logger: false })
  const targetOf = roundRobin(upstreams.map((port) => `http://127.0.0.1:${port}`))
  await app.register(proxy, {
    upstream: '',
    undici: { connections: agentOptions.maxSockets, pipelining: 1 },
    replyOptions: { getUpstream: () => targetOf() },
  })
  await app.ready()
  return app.server as Server<typeof IncomingMessage>
}
