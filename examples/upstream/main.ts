import { etcdTopology, ownershipGuard, registerUpstream } from 'consistent-hash-proxy'
import express from 'express'
import { pino } from 'pino'
import { decimal, drainMs, logLevel, port, readEnvironment, text } from '../shared/environment.ts'
import { etcdConnection, etcdVariables } from '../shared/etcd.ts'
import { listen } from '../shared/http-server.ts'
import { listenForStop, run } from '../shared/run.ts'

run(async () => {
  const environment = readEnvironment({
    ID: text.optional(),
    PORT: port.default(0),
    HOST: text.default('127.0.0.1'),
    WEIGHT: decimal(0.01, 100).default(1),
    ...etcdVariables,
    ETCD_HOSTS: etcdVariables.ETCD_HOSTS.default(['http://127.0.0.1:2379']),
    DRAIN_MS: drainMs,
    LOG_LEVEL: logLevel,
  })
  const etcd = etcdConnection(environment)
  const stop = listenForStop()
  const logger = pino({ level: environment.LOG_LEVEL }, pino.destination(process.stderr.fd))

  const app = express().disable('x-powered-by')
  const server = await listen(app, { host: environment.HOST, port: environment.PORT, variable: 'PORT' })
  const id = environment.ID ?? new URL(server.url).host

  // Before everything that acts on a request: what an outdated ring sent here goes back untouched.
  const guard = ownershipGuard({ id, topology: etcdTopology(etcd), logger })
  let served = 0
  app.use(guard, (request, response) => {
    served += 1
    response
      .type('text/plain')
      .send(`${id} got ${request.method} ${request.url}, its request number ${served}\n`)
  })
  const registration = registerUpstream({
    ...etcd,
    upstream: { id, url: server.url, weight: environment.WEIGHT },
    logger,
  })
  console.log(`Upstream ${id} on ${server.url}`)
  registration.ready().then(
    () => console.log(`Upstream ${id} is registered below ${etcd.prefix}upstreams/`),
    () => {}, // stopped before
  )

  await stop.whenAsked
  // Gateways first stop sending, then the registration goes, then the port.
  await registration.close()
  await Promise.all([server.close(environment.DRAIN_MS), guard.close()])
})
