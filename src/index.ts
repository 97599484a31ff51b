export type { RefusalReason } from './errors.ts'
export {
  ClosedError,
  ConsistentHashProxyError,
  OptionsError,
  RefusedEntryError,
  TopologySourceError,
} from './errors.ts'
export { type OwnershipGuard, type OwnershipGuardOptions, ownershipGuard } from './guard/ownership-guard.ts'
export { keepRawBody } from './http/consumed-body.ts'
export type { KeyFunction } from './key/function-source.ts'
export { key } from './key/key.ts'
export type { KeyFacts, KeyRequest, KeySource } from './key/key-source.ts'
export type { Logger } from './logger.ts'
export { type ConsistentHashProxy, consistentHashProxy } from './middleware.ts'
export type { ProxyEvents } from './observe/events.ts'
export type { ProxyStatus, UpstreamStatus } from './observe/status.ts'
export type * from './options.ts'
export { HashRing } from './ring/hash-ring.ts'
export type { HashRingOptions } from './ring/ring-options.ts'
export { type EtcdTopologyOptions, etcdTopology } from './topology/etcd/etcd-topology.ts'
export {
  type RegisterUpstreamOptions,
  type Registration,
  registerUpstream,
} from './topology/etcd/register.ts'
export { type FileTopologyOptions, fileTopology } from './topology/file.ts'
export type { UpstreamFields, UpstreamInput } from './topology/parse-upstream.ts'
export { staticTopology } from './topology/static.ts'
export type * from './topology/topology.ts'
export type { AllowedHosts } from './topology/upstream-url.ts'
