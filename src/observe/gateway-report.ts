import { createHash } from 'node:crypto'
import type { Balancer } from '../balancer/balancer.ts'
import type { Clock } from '../clock.ts'
import type { GatewayReport } from '../topology/topology.ts'
import type { ProxyEventEmitter } from './events.ts'
import { RequestRates } from './request-rates.ts'

/** Reads what a proxy tells the other gateways; counts its requests from now on. */
export function gatewayReport(
  balancer: Balancer,
  events: ProxyEventEmitter,
  clock: Clock,
): () => GatewayReport | undefined {
  const rates = new RequestRates(events, clock)
  return () => describe(balancer, rates)
}

/** Undefined before the first topology. */
function describe(balancer: Balancer, rates: RequestRates): GatewayReport | undefined {
  const { placement, beyondRingLimit } = balancer
  if (!placement) return undefined
  const { topology, ring } = placement
  const { seed, ...settings } = ring.options
  return {
    ...{ epoch: topology.epoch, revision: topology.revision, digest: ring.digest },
    // Whoever may read this knows no secret seed by it, unless that was drawn from few.
    settings: { ...settings, seed: createHash('sha256').update(String(seed)).digest('hex').slice(0, 16) },
    degraded: topology.degraded || beyondRingLimit,
    requestsPerSecond: rates.read(),
  }
}
