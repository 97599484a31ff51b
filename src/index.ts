export type { CircuitState, EjectionCause } from './breaker/circuit-breaker.ts'
export type { Clock, Timer } from './clock.ts'
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
export type { BodyKeyOptions } from './key/body-source.ts'
export type { KeyFunction } from './key/function-source.ts'
export { type KeyInput, key } from './key/key.ts'
export type { KeyFacts, KeyRequest, KeySource } from './key/key-source.ts'
export type { Logger } from './logger.ts'
export { type ConsistentHashProxy, consistentHashProxy } from './middleware.ts'
export type {
  GiveUpReason,
  ProxyEvents,
  RequestOutcome,
  RetryReason,
  StaleSign,
} from './observe/events.ts'
export type { ProxyStatus, UpstreamStatus } from './observe/status.ts'
export type * from './options.ts'
export { HashRing } from './ring/hash-ring.ts'
export type { RingMember, RingMemberInput } from './ring/members.ts'
export type { HashRingOptions } from './ring/ring-options.ts'
export type { DisappearanceOptions } from './topology/disappearance-guard.ts'
export type { SnapshotFileOptions } from './topology/disk-snapshot.ts'
export { type EtcdTopologyOptions, etcdTopology } from './topology/etcd/etcd-topology.ts'
export type { ReportOptions } from './topology/etcd/gateway-reports.ts'
export type { Registration } from './topology/etcd/leased-registration.ts'
export { type RegisterUpstreamOptions, registerUpstream } from './topology/etcd/register.ts'
export { type FileTopologyOptions, fileTopology } from './topology/file.ts'
export type { UpstreamFields, UpstreamInput } from './topology/parse-upstream.ts'
export { staticTopology } from './topology/static.ts'
export type * from './topology/topology.ts'
export type { AllowedHosts } from './topology/upstream-url.ts'
