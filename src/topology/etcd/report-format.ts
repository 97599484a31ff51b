import { isDeepStrictEqual } from 'node:util'
import { isRecord } from '../fields.ts'
import type { GatewayReport } from '../topology.ts'

/** The value of `<prefix>gateways/<gateway id>`: JSON, the revision in decimal text since it has 64 bits. */
export function encodeReport(report: GatewayReport): string {
  return JSON.stringify({ ...report, revision: report.revision.toString() })
}

/**
 * Which of the reports are of gateways that place keys otherwise: with other ring settings, or with another digest
 * though they are at our epoch and revision. What is no report says nothing. By id, in order.
 */
export function disagreeing(ours: GatewayReport, others: ReadonlyMap<string, Buffer>): string[] {
  const { settings, digest } = ours
  const [epoch, revision] = [ours.epoch, ours.revision.toString()]
  return [...others]
    .filter(([, value]) => {
      const theirs = parse(value)
      if (!isRecord(theirs) || !isRecord(theirs.settings) || typeof theirs.digest !== 'string') return false
      if (!isDeepStrictEqual(theirs.settings, { ...settings })) return true
      return theirs.epoch === epoch && theirs.revision === revision && theirs.digest !== digest
    })
    .map(([id]) => id)
    .sort()
}

function parse(value: Buffer): unknown {
  try {
    return JSON.parse(value.toString())
  } catch {
    return undefined
  }
}
