import { type ConsistentHashProxy, consistentHashProxy, staticTopology } from 'consistent-hash-proxy'
import express from 'express'
import { pino } from 'pino'
import { listen } from '../shared/http-server.ts'
import { listenForStop, run } from '../shared/run.ts'
import { adminApp } from './admin.ts'
import { startDemoUpstreams } from './demo-upstreams.ts'
import { hints } from './hints.ts'
import { readSettings } from './settings.ts'

run(async () => {
  const { key, topology, boundedLoad, drainMs, logLevel, host, port, adminPort } = readSettings()
  const stop = listenForStop()
  // The log goes to stderr, stdout is for people.
  const logger = pino({ level: logLevel }, pino.destination(process.stderr.fd))
  const demo = await startDemoUpstreams(topology ? [] : ['demo-1', 'demo-2', 'demo-3'])

  const proxy = consistentHashProxy({
    key,
    topology: topology ?? staticTopology(demo.upstreams),
    boundedLoad,
    timeouts: { drainMs },
    exposeUpstreamId: true,
    logger,
  })
  tellUntilReady(proxy)
  const app = express().disable('x-powered-by')
  app.use(proxy)

  const gateway = await listen(app, { host, port, variable: 'PORT' })
  const admin = await listen(adminApp(proxy, stop), {
    host: '127.0.0.1',
    port: adminPort,
    variable: 'ADMIN_PORT',
  })
  if (key.worksForUpgrade) gateway.server.on('upgrade', proxy.upgrade)
  const origin = topology ? `from ${topology.kind === 'etcd' ? 'etcd' : 'UPSTREAMS'}` : 'in this process'
  console.log(hints(gateway.url, admin.url, key.description, origin))

  await stop.whenAsked
  logger.info({}, 'stopping: requests in flight are finished')
  await Promise.all([gateway.close(drainMs), proxy.close()])
  await Promise.all([admin.close(0), demo.close()])
})

/** Says so when there is no topology for now, and says when there is one; the rest is for the log. */
function tellUntilReady(proxy: ConsistentHashProxy): void {
  const tell = ({ error }: { error: string }) => {
    proxy.off('sourceLost', tell)
    console.log(`Not ready: ${error}; still trying, /readyz tells when it is`)
    proxy.ready().then(
      () => console.log('Ready: the topology is in'),
      () => {}, // stopped before
    )
  }
  proxy.on('sourceLost', tell)
  proxy.ready().then(
    () => proxy.off('sourceLost', tell),
    () => {},
  )
}
