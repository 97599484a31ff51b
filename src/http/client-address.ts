import type { IncomingMessage } from 'node:http'
import { isIP, isIPv4, isIPv6, type Socket, SocketAddress } from 'node:net'
import { inspect } from 'node:util'
import proxyAddr from 'proxy-addr'
import { OptionsError } from '../errors.ts'

/** Whose word on the client's address counts. */
export interface Trust {
  /**
   * The client's address in canonical form (see `canonicalAddress`), or `unix` for a peer on a Unix socket, which
   * has none. `X-Forwarded-For` is read from right to left, each entry only while the address that reported it
   * is trusted; an entry that is no address ends the walk at the address that reported it.
   */
  clientAddress(request: IncomingMessage): string
  /** Whether the peer at the other end of the connection may say who its client is. */
  isTrustedPeer(request: IncomingMessage): boolean
}

/** Stands for peers on a Unix socket, both as an address and in the list of trusted proxies. */
const unix = 'unix'
const ranges: readonly string[] = ['loopback', 'linklocal', 'uniquelocal']

/**
 * Compiles the trusted proxies: addresses, CIDR ranges (`10.0.0.0/8`), `loopback`, `linklocal`, `uniquelocal`, and
 * `unix` for whoever connects through a Unix socket. An empty list trusts nobody: every client is its peer.
 * @throws OptionsError naming the entry that is none of these
 */
export function compileTrust(trustedProxies: readonly string[]): Trust {
  for (const entry of trustedProxies) checkEntry(entry)
  const isTrustedAddress = proxyAddr.compile(trustedProxies.filter((entry) => entry !== unix))
  const trustsUnix = trustedProxies.includes(unix)
  const isTrusted = (address: string) => (address === unix ? trustsUnix : isTrustedAddress(address, 0))
  return {
    clientAddress(request) {
      let nearest = peerAddress(request)
      for (const entry of forwardedFor(request).reverse()) {
        if (!isTrusted(nearest)) break
        const address = canonicalAddress(entry)
        if (address === undefined) break
        nearest = address
      }
      return nearest
    },
    isTrustedPeer: (request) => isTrusted(peerAddress(request)),
  }
}

/** Canonical addresses of the connections that are open: each is asked for with every request. */
const peers = new WeakMap<Socket, string>()

/** The address at the other end of the connection, canonical; `unix` where there is none. */
export function peerAddress({ socket }: IncomingMessage): string {
  let peer = peers.get(socket)
  if (peer === undefined) {
    peer = canonicalAddress(socket.remoteAddress ?? '') ?? unix
    peers.set(socket, peer)
  }
  return peer
}

/**
 * One spelling for each address: IPv4 dotted, also where it came mapped into IPv6; IPv6 as in RFC 5952, without
 * zone. Takes off brackets and a port (`[::1]:123`, `1.2.3.4:5678`). Undefined for what is no address.
 */
export function canonicalAddress(text: string): string | undefined {
  const bare = /^\[(.*)\](?::\d+)?$/.exec(text)?.[1] ?? /^([\d.]+):\d+$/.exec(text)?.[1] ?? text
  if (isIPv4(bare)) return bare
  if (!isIPv6(bare)) return undefined
  return new SocketAddress({ address: bare, family: 'ipv6' }).address.replace(/^::ffff:(?=.*\.)/, '')
}

/** The entries of `X-Forwarded-For`, the nearest proxy's last. Empty ones, as between two commas, do not count. */
function forwardedFor(request: IncomingMessage): string[] {
  const entries = [request.headers['x-forwarded-for'] ?? []].flat().join(',').split(',')
  return entries.map((entry) => entry.trim()).filter((entry) => entry !== '')
}

function checkEntry(entry: unknown): void {
  if (typeof entry === 'string') {
    if (entry === unix || ranges.includes(entry)) return
    // proxy-addr also takes '10/8' and reads it as 0.0.0.10/8.
    if (isIP(entry.split('/', 1)[0] ?? '') !== 0 && isCompilable(entry)) return
  }
  throw new OptionsError(
    `Expected \`trustedProxies\` to list addresses, CIDR ranges, ${ranges.join(', ')} or ${unix}, got ${inspect(entry)}`,
  )
}

function isCompilable(entry: string): boolean {
  try {
    proxyAddr.compile(entry)
    return true
  } catch {
    return false
  }
}
