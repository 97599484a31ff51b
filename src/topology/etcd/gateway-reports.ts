import { randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { OptionsError } from '../../errors.ts'
import { show } from '../fields.ts'
import { milliseconds } from '../milliseconds.ts'
import type { GatewayReport, SourceContext } from '../topology.ts'
import type { EtcdConnection } from './connection.ts'
import { explain } from './explain.ts'
import { disagreeing, encodeReport } from './report-format.ts'
import { ReportSession } from './report-session.ts'
import { type SessionEnd, SessionLoop } from './session-loop.ts'

/** How a gateway tells the others about itself. */
export interface ReportOptions {
  /** How often it writes, and reads what the others wrote, in milliseconds. Default 3,000. */
  readonly intervalMs?: number | undefined
  /** Its name among the gateways, one for each proxy. Default: a random one. */
  readonly gatewayId?: string | undefined
}

export interface ReportSettings {
  readonly intervalMs: number
  readonly gatewayId: string | undefined
}

/** Checks the option and fills the defaults. Throws OptionsError. */
export function parseReport(option: ReportOptions | false = {}): ReportSettings | false {
  if (option === false) return false
  const { intervalMs, gatewayId } = option
  if (gatewayId !== undefined && !(typeof gatewayId === 'string' && /^[^/\p{Cc}]{1,256}$/u.test(gatewayId))) {
    throw new OptionsError(
      `report.gatewayId: expected 1 to 256 characters, no / and no control characters, got ${show(gatewayId)}`,
    )
  }
  return { intervalMs: milliseconds('report.intervalMs', intervalMs, 3000), gatewayId }
}

/**
 * Keeps what a gateway says of itself in etcd, under a lease, and finds the gateways that place keys otherwise. An
 * aid to operators: what fails here harms nothing else.
 */
export class GatewayReports {
  readonly #connection: EtcdConnection
  readonly #settings: ReportSettings
  readonly #gatewayId: string
  readonly #context: SourceContext
  readonly #read: () => GatewayReport | undefined
  readonly #onDisagreement: (gateways: readonly string[]) => void
  readonly #loop: SessionLoop
  readonly #forbidden = new Set<string>()
  #disagreeing: readonly string[] = []
  #session: ReportSession | undefined

  constructor(
    { connection, report }: { readonly connection: EtcdConnection; readonly report: ReportSettings },
    read: () => GatewayReport | undefined,
    onDisagreement: (gateways: readonly string[]) => void,
    context: SourceContext,
  ) {
    this.#connection = connection
    this.#settings = report
    this.#gatewayId = report.gatewayId ?? randomUUID()
    this.#context = context
    this.#read = read
    this.#onDisagreement = onDisagreement
    this.#loop = new SessionLoop({
      connection,
      clock: context.clock,
      session: (host) => this.#live(host),
      onFailure: (reason) => context.logger.debug({ reason }, 'the report of this gateway is not in etcd'),
    })
  }

  /** Ids of the gateways that place keys otherwise than this one. */
  get disagreeing(): readonly string[] {
    return this.#disagreeing
  }

  /** The topology changed. */
  changed(): void {
    this.#session?.changed()
  }

  async close(): Promise<void> {
    const ended = this.#loop.close()
    await this.#session?.revoke().catch(() => {})
    this.#session?.end(undefined)
    await ended
  }

  async #live(host: string): Promise<SessionEnd> {
    const { intervalMs } = this.#settings
    this.#session = new ReportSession({
      connection: this.#connection,
      host,
      clock: this.#context.clock,
      gatewayId: this.#gatewayId,
      intervalMs,
      // Two rounds may fail before the others believe that it is gone.
      ttlSeconds: Math.max(10, Math.ceil((3 * intervalMs) / 1000)),
      value: () => {
        const report = this.#read()
        return report && encodeReport(report)
      },
      onOthers: (reports) => this.#compare(reports),
      onForbidden: (what, error) => this.#tellForbidden(what, explain(error, this.#connection, host)),
    })
    const end = await this.#session.run()
    this.#session = undefined
    return end
  }

  #compare(reports: ReadonlyMap<string, Buffer>): void {
    const ours = this.#read()
    if (!ours) return
    const gateways = disagreeing(ours, reports)
    if (isDeepStrictEqual(gateways, this.#disagreeing)) return
    this.#disagreeing = gateways
    this.#onDisagreement(gateways)
  }

  #tellForbidden(what: 'write' | 'read', reason: string): void {
    if (this.#forbidden.has(what)) return
    this.#forbidden.add(what)
    const consequence =
      what === 'write'
        ? 'this gateway is not seen by the others: permit its user to write gateways/, or set report to false'
        : 'this gateway does not see the others: permit its user to read gateways/, or set report to false'
    this.#context.logger.warn({ reason }, consequence)
  }
}
