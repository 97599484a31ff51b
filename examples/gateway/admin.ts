import type { ConsistentHashProxy } from 'consistent-hash-proxy'
import express, { type Express } from 'express'
import type { Stop } from '../shared/run.ts'

/** What an operator and an orchestrator ask a gateway. It tells addresses of upstreams: for loopback only. */
export function adminApp(proxy: ConsistentHashProxy, stop: Stop): Express {
  const app = express().disable('x-powered-by').set('json spaces', 2)

  app.get('/metrics', async (_request, response) => {
    if (!proxy.metrics) return response.sendStatus(404)
    response.set('content-type', proxy.metrics.contentType).send(await proxy.metrics.metrics())
  })

  app.get('/status', (_request, response) => response.json(proxy.status()))

  /** The process lives; whether it is of use is `/readyz`'s to say. */
  app.get('/healthz', (_request, response) => response.json({ alive: true }))

  /** Whether requests can be sent here. A source that was lost later does not count: the last topology serves on. */
  app.get('/readyz', (_request, response) => {
    const { revision, degraded, source } = proxy.status()
    const reason = stop.asked
      ? 'the gateway is shutting down'
      : revision === null &&
        `there is no topology yet: ${('error' in source && source.error) || source.state}`
    if (reason) response.status(503).json({ ready: false, reason })
    else response.json({ ready: true, degraded, source })
  })

  return app
}
