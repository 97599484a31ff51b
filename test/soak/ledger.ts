import type { Account } from '../support/account.ts'
import type { GatewayReport } from '../support/gateway-process.ts'
import { growth, type Reading } from './trend.ts'

/** Growth over a whole soak that compiled code, caches and open connections explain, however long the soak. */
const tolerated = { heapBytes: 5_000_000, handles: 30, listeners: 0 } as const

/** The first rounds, in which code is compiled and pools fill, say nothing about growth. */
const warmUpRounds = 3

/** Keeps what each round of the soak showed, and judges it. */
export class Ledger {
  readonly #readings = { heapBytes: [] as Reading[], handles: [] as Reading[], listeners: [] as Reading[] }
  readonly #faults = new Set<string>()
  #sent = 0

  /** Takes one round, at whose end nothing is under way. `at`: seconds since the start. Returns it in one line. */
  take(at: number, account: Account, report: GatewayReport): string {
    const { status, heapBytes, handles, listeners } = report
    for (const [figure, readings] of Object.entries(this.#readings))
      readings.push({ at, value: report[figure as keyof typeof tolerated] })
    this.#sent += account.sent
    this.#look(account, report)
    const results = Object.entries(account.byResult).map(([result, count]) => `${result}: ${count}`)
    return [
      `${at.toFixed(0).padStart(5)} s`,
      `${this.#sent} sent, last at ${account.perSecond}/s (${results.join(', ')})`,
      `heap ${(heapBytes / 1e6).toFixed(1)} MB, handles ${handles}, listeners ${listeners}`,
      `revision ${status.revision}, ${status.upstreams.length} upstreams`,
    ].join('  ')
  }

  /** What does not hold; nothing when all does. */
  verdict(): string[] {
    for (const [figure, readings] of Object.entries(this.#readings)) {
      const grown = Math.round(growth(readings.slice(warmUpRounds)))
      this.#expect(grown <= tolerated[figure as keyof typeof tolerated], `${figure} grew by ${grown}`)
    }
    return [...this.#faults]
  }

  #look(account: Account, { status, metrics, warnings }: GatewayReport): void {
    const present = new Set(status.upstreams.map(({ id }) => id))
    for (const [, id = ''] of metrics.matchAll(/upstream="([^"]+)"/g))
      this.#expect(present.has(id), `metric series of ${id} stay behind its departure`)
    this.#expect(status.inFlight === 0, `${status.inFlight} requests stay in flight behind the traffic`)
    this.#expect(warnings.length === 0, `the process warned: ${warnings.join('; ')}`)
    this.#expect(account.lost.length === 0, `${account.lost.length} requests are lost`)
    this.#expect(account.executedTwice.length === 0, `executed twice: ${account.executedTwice.join(', ')}`)
    this.#expect(account.answeredTwice.length === 0, `answered twice: ${account.answeredTwice.join(', ')}`)
  }

  #expect(holds: boolean, otherwise: string): void {
    if (!holds) this.#faults.add(otherwise)
  }
}
