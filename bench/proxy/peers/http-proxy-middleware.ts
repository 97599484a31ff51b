import { Agent, createServer } from 'node:http'
import { createProxyMiddleware } from 'http-proxy-middleware'
import { agentOptions, type CreateProxy, roundRobin } from '../proxy-settings.ts'

/** `http-proxy-middleware` with a `router` that picks the upstream: as its README has it, or with a keep-alive agent. */
export const create: CreateProxy = async ({ upstreams, keepAlive }) => {
  const targetOf = roundRobin(upstreams.map((port) => `http://127.0.0.1:${port}`))
  const proxy = createProxyMiddleware({
    target: targetOf(),
    router: targetOf,
    ...(keepAlive ? { agent: new Agent(agentOptions) } : {}),
  })
  return createServer((request, response) => {
    void proxy(request, response, () => response.destroy())
  })
}
