import type { Duplex } from 'node:stream'
import { hasBody } from '../http/framing.ts'
import type { KeyRequest } from '../key/key-source.ts'
import { attemptUpgrade } from './attempt-upgrade.ts'
import { failures } from './failure.ts'
import type { Gateway } from './gateway.ts'
import { originForm, requestHead } from './outgoing-head.ts'
import { positionOf } from './prepare.ts'
import { account } from './serve.ts'
import { tryOwners } from './try-owners.ts'
import { UpgradeClient } from './upgrade-client.ts'

/** Serves one upgrade from its key to the close of its sockets. Never rejects. */
export function serveUpgrade(
  gateway: Gateway,
  request: KeyRequest,
  socket: Duplex,
  head: Buffer,
): Promise<void> {
  const { config, routingKey } = gateway
  if (head.length > 0) socket.unshift(head)
  const client = new UpgradeClient(request, socket, config.clock, gateway.deadlines)
  return account(gateway, client, async (_gateway, _client, started) => {
    if (request.method !== 'GET' || !offersWebSocket(request)) return client.fail(failures.notWebSocket)
    if (hasBody(request)) return client.fail(failures.upgradeWithBody)
    const position = positionOf(gateway, routingKey.of(request, { kind: 'none' }, undefined))
    if (typeof position === 'object') return client.fail(position)
    const path = pathBelow(config.mountPath, request.url)
    const prepared = {
      client,
      position,
      head: requestHead(gateway, request, path, { kind: 'none' }),
      deadline: started + config.timeouts.totalMs,
    }
    return tryOwners(gateway, client, { position, longLived: true }, (lease, attempt) =>
      attemptUpgrade(gateway, prepared, lease, attempt),
    )
  })
}

/** Whether an upgrade is meant for a proxy mounted at `mountPath`. */
export function isBelow(mountPath: string, url: string | undefined): boolean {
  const path = originForm(url)
  return path.startsWith(mountPath) && /^($|[/?])/.test(path.slice(mountPath.length))
}

function pathBelow(mountPath: string, url: string | undefined): string {
  const path = originForm(url).slice(mountPath.length)
  return path.startsWith('/') ? path : `/${path}`
}

/** No other protocol is passed on: behind `h2c`, say, an upstream would be sent requests that no rule of ours has seen. */
export function offersWebSocket({ headers }: KeyRequest): boolean {
  return headers.upgrade?.toLowerCase() === 'websocket'
}
