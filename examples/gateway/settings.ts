import { etcdTopology, key, staticTopology, type TopologySource } from 'consistent-hash-proxy'
import { decimal, drainMs, logLevel, port, readEnvironment, readWith, text } from '../shared/environment.ts'
import { etcdConnection, etcdVariables, list } from '../shared/etcd.ts'

/**
 * Reads the environment. `topology` is undefined where it names neither etcd nor upstreams; etcd goes before upstreams.
 *
 * @throws StartError with one line for each bad value
 */
export function readSettings() {
  const environment = readEnvironment({
    PORT: port.default(8080),
    HOST: text.default('127.0.0.1'),
    ADMIN_PORT: port.default(8081),
    HASH_KEY: readWith(key.parse).default(key.header('x-user-id')),
    UPSTREAMS: readWith((text) => staticTopology(list(text))).optional(),
    ...etcdVariables,
    ETCD_HOSTS: etcdVariables.ETCD_HOSTS.optional(),
    BALANCE_FACTOR: decimal(1, 1_000).default(1.25),
    LOAD_FLOOR: decimal(0, 1_000_000).default(8),
    DRAIN_MS: drainMs,
    LOG_LEVEL: logLevel,
  })
  const { ETCD_HOSTS, UPSTREAMS } = environment
  const topology: TopologySource | undefined = ETCD_HOSTS
    ? etcdTopology(etcdConnection({ ...environment, ETCD_HOSTS }))
    : UPSTREAMS
  return {
    port: environment.PORT,
    host: environment.HOST,
    adminPort: environment.ADMIN_PORT,
    key: environment.HASH_KEY,
    topology,
    boundedLoad: { factor: environment.BALANCE_FACTOR, floor: environment.LOAD_FLOOR },
    drainMs: environment.DRAIN_MS,
    logLevel: environment.LOG_LEVEL,
  }
}
