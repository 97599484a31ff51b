import { Agent, createServer } from 'node:http'
import httpProxy from 'http-proxy'
import { agentOptions, type CreateProxy, roundRobin } from '../proxy-settings.ts'

/** Bare `http-proxy` with a keep-alive agent. */
export const create: CreateProxy = async ({ upstreams }) => {
  const proxy = httpProxy.createProxyServer({ agent: new Agent(agentOptions) })
  const targetOf = roundRobin(upstreams.map((port) => `http://127.0.0.1:${port}`))
  return createServer((request, response) => {
    proxy.web(request, response, { target: targetOf() }, () => response.destroy())
  }).on('upgrade', (request, socket, head) => {
    proxy.ws(request, socket, head, { target: targetOf() }, () => socket.destroy())
  })
}
