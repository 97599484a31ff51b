import { type HttpServer, listen } from '../shared/http-server.ts'

/** Upstreams in this very process, to try the gateway with: each answers who it is and what it was asked. */
export async function startDemoUpstreams(ids: readonly string[]) {
  const servers = await Promise.all(ids.map(startDemoUpstream))
  return {
    upstreams: ids.map((id, index) => ({ id, url: servers[index]?.url ?? '' })),
    close: () => Promise.all(servers.map((server) => server.close(0))),
  }
}

function startDemoUpstream(id: string): Promise<HttpServer> {
  let served = 0
  return listen(
    ({ method, url }, response) => {
      served += 1
      response.setHeader('content-type', 'text/plain; charset=utf-8')
      response.end(`${id} got ${method} ${url}, its request number ${served}\n`)
    },
    { host: '127.0.0.1', port: 0, variable: 'a demo upstream' },
  )
}
