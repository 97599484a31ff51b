import { X509Certificate } from 'node:crypto'
import { createSecureContext, type SecureContextOptions } from 'node:tls'
import type { UpstreamTlsOptions } from './options.ts'

/** What is wrong with one of the TLS options. */
export interface TlsMistake {
  readonly option: 'ca' | 'cert' | 'key'
  readonly expected: string
}

/**
 * Finds what OpenSSL cannot read or put together. Otherwise it would only show as failed handshakes, and they look
 * like an outage of the upstreams. What was given stays out of the message: it may be a private key.
 */
export function findTlsMistake({ ca, cert, key }: UpstreamTlsOptions): TlsMistake | undefined {
  // A secure context takes a CA that it cannot read without a word.
  if (ca !== undefined && ![ca].flat().every((pem) => works(() => new X509Certificate(pem)))) {
    return { option: 'ca', expected: 'certificates in PEM' }
  }
  if (cert !== undefined && !isUsable({ cert })) return { option: 'cert', expected: 'a certificate in PEM' }
  if (key !== undefined && !isUsable({ key })) {
    return { option: 'key', expected: 'a private key in PEM without passphrase' }
  }
  if (cert !== undefined && key === undefined) {
    return { option: 'key', expected: 'the private key of `upstreamTls.cert`' }
  }
  if (cert === undefined && key !== undefined) {
    return { option: 'cert', expected: 'the certificate of `upstreamTls.key`' }
  }
  if (cert !== undefined && key !== undefined && !isUsable({ cert, key })) {
    return { option: 'key', expected: 'the private key of `upstreamTls.cert`' }
  }
  return undefined
}

const isUsable = (options: SecureContextOptions) => works(() => createSecureContext(options))

function works(read: () => unknown): boolean {
  try {
    read()
    return true
  } catch {
    return false
  }
}
