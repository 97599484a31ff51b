import type { SourceStatus } from './topology.ts'

/** A status that tells about its changes only, and stays `closed` once it is. */
export class FeedStatus {
  readonly #onChange: (status: SourceStatus) => void
  #current: SourceStatus = { state: 'connecting' }
  #wasLive = false

  constructor(onChange: (status: SourceStatus) => void) {
    this.#onChange = onChange
  }

  get current(): SourceStatus {
    return this.#current
  }

  live(): void {
    this.#wasLive = true
    this.#set({ state: 'live' })
  }

  /** What a failure means depends on the past: before the first success we still connect. */
  failed(error: string): void {
    this.#set({ state: this.#wasLive ? 'lost' : 'connecting', error })
  }

  closed(): void {
    this.#set({ state: 'closed' })
  }

  #set(next: SourceStatus): void {
    const { state } = this.#current
    const unchanged = state === next.state && errorOf(this.#current) === errorOf(next)
    if (state === 'closed' || unchanged) return
    this.#current = next
    this.#onChange(next)
  }
}

const errorOf = (status: SourceStatus) => ('error' in status ? status.error : undefined)
