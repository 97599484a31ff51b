import { createServer } from 'node:http'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { CreateProxy } from '../proxy-settings.ts'

/** The package as users run it: built, on a bare server, all defaults on. */
export const create: CreateProxy = async ({ upstreams, checkout = '', options }) => {
  const entry = pathToFileURL(join(checkout, 'dist', 'index.js')).href
  const { consistentHashProxy, staticTopology } = (await import(
    entry
  )) as typeof import('consistent-hash-proxy')
  const proxy = consistentHashProxy({
    key: 'header:x-user-id',
    topology: staticTopology(upstreams.map((port) => `http://127.0.0.1:${port}`)),
    ...options,
  })
  await proxy.ready()
  return createServer(proxy).on('upgrade', proxy.upgrade)
}
