import { type EtcdTopologyOptions, etcdTopology } from 'consistent-hash-proxy'
import { readWith, text } from './environment.ts'
import { StartError } from './run.ts'

/** Splits a comma-separated list. */
export const list = (text: string) =>
  text
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '')

/** The environment variables that say which etcd, and where in it. */
export const etcdVariables = {
  ETCD_HOSTS: readWith((text) => checked({ hosts: list(text), prefix: 'any' }).hosts),
  ETCD_PREFIX: readWith((prefix) => checked({ hosts: 'http://any', prefix }).prefix).default(
    '/consistent-hash-proxy/example/',
  ),
  ETCD_USERNAME: text.optional(),
  ETCD_PASSWORD: text.optional(),
}

/** The same as the library's options. */
export function etcdConnection(environment: {
  readonly ETCD_HOSTS: EtcdTopologyOptions['hosts']
  readonly ETCD_PREFIX: string
  readonly ETCD_USERNAME?: string | undefined
  readonly ETCD_PASSWORD?: string | undefined
}) {
  const { ETCD_HOSTS: hosts, ETCD_PREFIX: prefix, ETCD_USERNAME, ETCD_PASSWORD } = environment
  if ((ETCD_USERNAME === undefined) !== (ETCD_PASSWORD === undefined)) {
    throw new StartError(
      ETCD_PASSWORD === undefined
        ? 'ETCD_PASSWORD: expected the password of ETCD_USERNAME, got none'
        : 'ETCD_USERNAME: expected the user whose password ETCD_PASSWORD is, got none',
    )
  }
  return {
    hosts,
    prefix,
    ...(ETCD_USERNAME !== undefined &&
      ETCD_PASSWORD !== undefined && { auth: { username: ETCD_USERNAME, password: ETCD_PASSWORD } }),
  }
}

/** Making a source checks its options and connects to nothing. */
function checked<Options extends EtcdTopologyOptions>(options: Options): Options {
  etcdTopology(options)
  return options
}
