import type { Clock, Timer } from '../clock.ts'
import { OptionsError } from '../errors.ts'
import { sortedById } from './content.ts'
import { show } from './fields.ts'
import { milliseconds } from './milliseconds.ts'
import type { Topology, Upstream } from './topology.ts'

/** How far back the largest set is looked for, in milliseconds: leases that expire together expire within it. */
const WINDOW_MS = 60_000

/** What to do when most of the upstreams disappear at once. */
export interface DisappearanceOptions {
  /**
   * How long upstreams stay that are missing since more than half of the largest set of the last 60 s went, in
   * milliseconds; connects decide meanwhile which of them live. Longer than a lost lease needs to come back.
   * Default 60,000; 0 obeys at once.
   */
  readonly gracePeriodMs?: number | undefined
  /** Whether an empty set is obeyed after that, or the last upstreams are kept until others come. Default 'keep'. */
  readonly onEmpty?: 'keep' | 'obey' | undefined
}

/** The names of the options above. */
export const disappearanceOptionNames = ['gracePeriodMs', 'onEmpty']

/** The same, checked and complete. */
export interface DisappearanceSettings {
  readonly gracePeriodMs: number
  readonly onEmpty: 'keep' | 'obey'
}

/** Checks the options and fills the defaults. Throws OptionsError. */
export function parseDisappearance(options: DisappearanceOptions): DisappearanceSettings {
  const { gracePeriodMs, onEmpty = 'keep' } = options
  if (onEmpty !== 'keep' && onEmpty !== 'obey') {
    throw new OptionsError(`onEmpty: expected "keep" or "obey", got ${show(onEmpty)}`)
  }
  return { gracePeriodMs: milliseconds('gracePeriodMs', gracePeriodMs, 60_000, 0), onEmpty }
}

/** A moment: its place in the order of topologies, and the time. */
interface Moment {
  readonly turn: number
  readonly at: number
}

/** An upstream as the source had it last, unless it drained. */
interface Sighting {
  readonly upstream: Upstream
  readonly since: number
  readonly gone: Moment | undefined
}

/**
 * Stands between a source and whoever serves by it, and doubts it when most upstreams disappear: expired leases
 * and a deleted prefix look like a decision of the operator's and rarely are one. What drained before it left, and
 * what as many new ones replace, was decided. A set that is held is `degraded`: a gateway that starts now differs.
 */
export class DisappearanceGuard {
  readonly #options: DisappearanceSettings
  readonly #clock: Clock
  readonly #onObeyed: (topology: Topology) => void
  readonly #sightings = new Map<string, Sighting>()
  /** The sizes of the set now and of each larger one before it, in order. */
  readonly #peaks: { size: number; turn: number; until: number }[] = []
  #turn = 0
  #latest: Topology | undefined
  /** The turn of the set that the missing are missing from, and when the hold began. */
  #hold: Moment | undefined
  #emptyUntil = Number.NEGATIVE_INFINITY
  #timer: Timer | undefined

  /** `onObeyed` receives what to serve when a grace period has ended. */
  constructor(options: DisappearanceSettings, clock: Clock, onObeyed: (topology: Topology) => void) {
    this.#options = options
    this.#clock = clock
    this.#onObeyed = onObeyed
  }

  /** Takes what the source has now, and gives what to serve. */
  take(topology: Topology): Topology {
    const now = this.#clock.now()
    this.#turn += 1
    if (this.#keepsEmpty) this.#emptyUntil = now
    this.#latest = topology
    this.#look(topology, now)
    this.#hold ??= this.#doubt(now)
    return this.#serve(topology, now)
  }

  close(): void {
    this.#timer?.cancel()
  }

  get #keepsEmpty(): boolean {
    return this.#options.onEmpty === 'keep' && this.#latest?.upstreams.length === 0
  }

  #look({ upstreams }: Topology, now: number): void {
    const turn = this.#turn
    const ids = new Set(upstreams.map(({ id }) => id))
    for (const [id, sighting] of this.#sightings) {
      if (ids.has(id)) continue
      if (!sighting.gone) this.#sightings.set(id, { ...sighting, gone: { turn, at: now } })
      else if (!this.#hold && sighting.gone.at < now - WINDOW_MS) this.#sightings.delete(id)
    }
    let size = 0
    for (const upstream of upstreams) {
      const { id, state } = upstream
      if (state === 'draining') this.#forget(id)
      else {
        size += 1
        this.#sightings.set(id, { upstream, since: this.#sightings.get(id)?.since ?? turn, gone: undefined })
      }
    }
    this.#rememberSize(size, now)
  }

  /** It is not missed any more, and was never part of the larger sets. */
  #forget(id: string): void {
    const sighting = this.#sightings.get(id)
    if (!sighting) return
    const { since, gone } = sighting
    this.#sightings.delete(id)
    for (const peak of this.#peaks) {
      if (since <= peak.turn && (!gone || gone.turn > peak.turn)) peak.size -= 1
    }
  }

  /** Keeps the sets of the window than which no later one is as large: the first is the largest. */
  #rememberSize(size: number, now: number): void {
    const sets = this.#peaks.splice(0)
    const last = sets.at(-1)
    if (last) last.until = now
    sets.push({ size, turn: this.#turn, until: Number.POSITIVE_INFINITY })
    for (const set of sets) {
      if (set.until < now - WINDOW_MS) continue
      while ((this.#peaks.at(-1)?.size ?? Number.POSITIVE_INFINITY) <= set.size) this.#peaks.pop()
      this.#peaks.push(set)
    }
  }

  /** The beginning of a hold, if less than half of the largest set is left, new ones included. */
  #doubt(now: number): Moment | undefined {
    const largest = this.#peaks[0]
    const left = this.#peaks.at(-1)
    return largest && left && left.size < largest.size / 2 ? { turn: largest.turn, at: now } : undefined
  }

  #missingSince(turn: number): Sighting[] {
    return [...this.#sightings.values()].filter(({ gone }) => gone !== undefined && gone.turn > turn)
  }

  #cameSince(turn: number): number {
    let count = 0
    for (const { since, gone } of this.#sightings.values()) if (!gone && since > turn) count += 1
    return count
  }

  #serve(topology: Topology, now: number): Topology {
    this.#timer?.cancel()
    const held = this.#hold ? this.#stillHeld(this.#hold, now) : []
    if (held.length === 0) {
      this.#hold = undefined
      return topology
    }
    const upstreams = sortedById([...topology.upstreams, ...held])
    return { ...topology, upstreams, degraded: true, held: held.map(({ id }) => id).sort() }
  }

  /** The missing whose grace period has not ended; the others are forgotten, all of them once they are replaced. */
  #stillHeld(hold: Moment, now: number): Upstream[] {
    const missing = this.#missingSince(hold.turn)
    const replaced = missing.length <= this.#cameSince(hold.turn)
    const held: Upstream[] = []
    let next = Number.POSITIVE_INFINITY
    for (const { upstream, gone } of missing) {
      const from = Math.max(hold.at, gone?.at ?? now, this.#emptyUntil)
      const end = this.#keepsEmpty ? Number.POSITIVE_INFINITY : from + this.#options.gracePeriodMs
      if (replaced || end <= now) this.#forget(upstream.id)
      else {
        held.push(upstream)
        next = Math.min(next, end)
      }
    }
    if (next < Number.POSITIVE_INFINITY) this.#timer = this.#clock.setTimeout(() => this.#obey(), next - now)
    return held
  }

  #obey(): void {
    if (this.#latest) this.#onObeyed(this.#serve(this.#latest, this.#clock.now()))
  }
}
