/** The folder of registrations: `<prefix>upstreams/<name>`. */
export const UPSTREAMS = 'upstreams/'
/** The folder of what operators set over them: `<prefix>overrides/<id>`. */
export const OVERRIDES = 'overrides/'

/** The folder of what gateways say of themselves: `<prefix>gateways/<gateway id>`. */
export const GATEWAYS = 'gateways/'

/**
 * The keys that a topology is made of, as one range: one watch on it delivers a transaction over both
 * folders as one batch, which two watches would not. It runs from `overrides/` to the end of `upstreams/`
 * (`0` follows `/`), so what every gateway writes about itself below `gateways/` is outside and wakes nobody.
 */
export function topologyRange(prefix: string): { start: Buffer; end: Buffer } {
  return { start: Buffer.from(`${prefix}${OVERRIDES}`), end: Buffer.from(`${prefix}upstreams0`) }
}

/** All that gateways say of themselves. */
export function gatewaysRange(prefix: string): { start: Buffer; end: Buffer } {
  return { start: Buffer.from(`${prefix}${GATEWAYS}`), end: Buffer.from(`${prefix}gateways0`) }
}

/** The rest of a key behind the prefix, one character for each byte: no two keys become one, order stays. */
export function relativeKey(key: Buffer, prefix: string): string {
  return key.subarray(Buffer.byteLength(prefix)).toString('latin1')
}
