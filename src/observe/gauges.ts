import type { ProxyStatus, UpstreamStatus } from './status.ts'

type Labels = Record<string, string>

/** Makes a gauge whose series are all written anew at each scrape, so what has left leaves no series behind. */
export type MakeGauge = (
  name: string,
  help: string,
  labelNames: string[],
  collect: (set: (labels: Labels, value: number) => void) => void,
) => void

const breakerStates = ['closed', 'open', 'half-open'] as const

/** Gauges of a proxy, pulled from its status. */
export function addGauges(gauge: MakeGauge, readStatus: () => ProxyStatus): void {
  const status = oncePerTick(readStatus)
  const whole = (name: string, help: string, read: (status: ProxyStatus) => number | null) =>
    gauge(name, help, [], (set) => {
      const value = read(status())
      if (value !== null) set({}, value)
    })
  const each = (name: string, help: string, read: (upstream: UpstreamStatus) => number | null) =>
    gauge(name, help, ['upstream'], (set) => {
      for (const upstream of status().upstreams) {
        const value = read(upstream)
        if (value !== null) set({ upstream: upstream.id }, value)
      }
    })

  each('in_flight', 'Requests in flight', ({ inFlight }) => inFlight)
  each('long_lived', 'WebSockets and long-lived requests open', ({ longLived }) => longLived)
  each('capacity', 'Requests in flight that the load bound allows just now', ({ capacity }) => capacity)
  each('share', 'Share of the keys owned, 0 to 1', ({ share }) => share)
  each('eligible', '1 when it may be chosen', ({ eligible }) => Number(eligible))
  gauge('breaker_state', '1 for the state that the circuit breaker is in', ['upstream', 'state'], (set) => {
    for (const { id, breaker } of status().upstreams) {
      for (const state of breakerStates) set({ upstream: id, state }, Number(breaker === state))
    }
  })
  whole('heaviest_over_mean', 'Heaviest share over the mean share', ({ ring }) => ring.heaviestOverMean)
  whole('panic', '1 while more is ejected than the cap allows', ({ panic }) => Number(panic))
  whole('topology_revision', 'Revision in use', ({ revision }) =>
    revision === null ? null : Number(revision),
  )
  whole('topology_epoch', 'How often revisions went back', ({ epoch }) => epoch)
  whole('topology_age_seconds', 'Time since the topology last changed', ({ topologyAgeMs }) =>
    topologyAgeMs === null ? null : topologyAgeMs / 1_000,
  )
  whole('source_up', '1 while the topology source can be read', ({ source }) =>
    Number(source.state === 'live'),
  )
  whole('degraded', '1 while entries are refused or held', ({ degraded }) => Number(degraded))
  whole('held_upstreams', 'Upstreams served on though they disappeared', ({ held }) => held.length)
  whole(
    'digest_mismatch',
    'Gateways that place keys otherwise',
    ({ digestMismatch }) => digestMismatch.length,
  )
}

/** All gauges of one scrape are collected in one tick and show one moment; the status is put together once for them. */
function oncePerTick<T>(read: () => T): () => T {
  let cached: { value: T } | undefined
  return () => {
    if (!cached) {
      cached = { value: read() }
      setImmediate(() => {
        cached = undefined
      })
    }
    return cached.value
  }
}
