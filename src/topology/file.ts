import { readFile } from 'node:fs/promises'
import type { Timer } from '../clock.ts'
import { OptionsError, TopologySourceError } from '../errors.ts'
import { requireKnown } from '../known-options.ts'
import { contentId } from './content.ts'
import {
  DisappearanceGuard,
  type DisappearanceOptions,
  type DisappearanceSettings,
  disappearanceOptionNames,
  parseDisappearance,
} from './disappearance-guard.ts'
import { FeedStatus } from './feed-status.ts'
import { isRecord, messageOf, show } from './fields.ts'
import { milliseconds } from './milliseconds.ts'
import { parseList } from './parse-list.ts'
import type { SourceContext, Topology, TopologyFeed, TopologyObserver, TopologySource } from './topology.ts'
import { type AllowedHosts, type HostFilter, hostFilter } from './upstream-url.ts'

export interface FileTopologyOptions extends DisappearanceOptions {
  /** A JSON file: a list of upstreams as in `staticTopology`, or an object with such a list as `upstreams`. */
  readonly path: string
  /** How often the file is looked at, in milliseconds. Default 1,000. */
  readonly pollIntervalMs?: number | undefined
  /** Which hosts upstreams may have. Default: all. */
  readonly allowedHosts?: AllowedHosts | undefined
}

interface Settings {
  readonly path: string
  readonly pollIntervalMs: number
  readonly mayHaveHost: HostFilter
  readonly disappearance: DisappearanceSettings
}

/**
 * A topology in a file, read anew when its content changes. A bad entry is refused alone; a file that cannot
 * be read or parsed leaves the last good topology and is the status's error. The revision counts the changes
 * that this process saw. Throws OptionsError.
 */
export function fileTopology(options: FileTopologyOptions): TopologySource {
  requireKnown(options, [...disappearanceOptionNames, 'path', 'pollIntervalMs', 'allowedHosts'])
  const { path, allowedHosts } = options
  if (typeof path !== 'string' || path === '') {
    throw new OptionsError(`path: expected the path of a JSON file, got ${show(path)}`)
  }
  const settings = {
    path,
    pollIntervalMs: milliseconds('pollIntervalMs', options.pollIntervalMs, 1000),
    mayHaveHost: hostFilter(allowedHosts),
    disappearance: parseDisappearance(options),
  }
  return { kind: 'file', open: (observer, context) => new FileFeed(settings, observer, context) }
}

class FileFeed implements TopologyFeed {
  readonly #settings: Settings
  readonly #observer: TopologyObserver
  readonly #context: SourceContext
  readonly #status: FeedStatus
  readonly #guard: DisappearanceGuard
  #text: string | undefined
  #topology: Topology | undefined
  /** Entries already told to the observer as refused, as JSON. */
  #refused: ReadonlySet<string> = new Set()
  #reading: Promise<void> | undefined
  #timer: Timer | undefined

  constructor(settings: Settings, observer: TopologyObserver, context: SourceContext) {
    this.#settings = settings
    this.#observer = observer
    this.#context = context
    this.#status = new FeedStatus((status) => observer.onStatus(status))
    this.#guard = new DisappearanceGuard(settings.disappearance, context.clock, (topology) =>
      observer.onTopology(topology),
    )
    void this.#poll()
  }

  get status() {
    return this.#status.current
  }

  refresh(): Promise<void> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined
    })
    return this.#reading
  }

  async close(): Promise<void> {
    this.#status.closed()
    this.#timer?.cancel()
    this.#guard.close()
    await this.#reading?.catch(() => {})
  }

  // The whole file each time, not its mtime: that has the grain of the file system's clock, stays equal under
  // some renames, and says nothing on some network mounts.
  async #poll(): Promise<void> {
    await this.refresh().catch(() => {})
    if (this.status.state === 'closed') return
    this.#timer = this.#context.clock.setTimeout(() => void this.#poll(), this.#settings.pollIntervalMs)
  }

  async #read(): Promise<void> {
    const { path } = this.#settings
    try {
      const text = await readFile(path, 'utf8')
      if (this.status.state === 'closed')
        throw new TopologySourceError(`${path}: the file topology is closed`)
      if (text !== this.#text) this.#take(entriesOf(text))
      this.#text = text
      this.#status.live()
    } catch (error) {
      const message = `${path}: ${messageOf(error)}`
      this.#status.failed(message)
      throw new TopologySourceError(message, { cause: error })
    }
  }

  #take(inputs: readonly unknown[]): void {
    const { upstreams, refused } = parseList(inputs, this.#settings.mayHaveHost, this.#topology?.upstreams)
    const told = this.#refused
    this.#refused = new Set(refused.map(({ text }) => text))
    for (const { entry, text, error } of refused) {
      if (!told.has(text)) this.#observer.onRefused(entry, error)
    }
    const revision = (this.#topology?.revision ?? 0n) + 1n
    const id = contentId(upstreams)
    this.#topology = { id, epoch: 0, revision, upstreams, degraded: refused.length > 0 }
    this.#observer.onTopology(this.#guard.take(this.#topology))
  }
}

function entriesOf(text: string): readonly unknown[] {
  const content: unknown = JSON.parse(text)
  const entries = isRecord(content) ? content.upstreams : content
  if (Array.isArray(entries)) return entries
  throw new TypeError(`expected a list of upstreams or {"upstreams": […]}, got ${show(content)}`)
}
