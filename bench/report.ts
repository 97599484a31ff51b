/** What one part of the benchmark found. */
export interface BenchReport {
  /** The figures that are held against a bound, by the name that the bound has. */
  readonly ratios: Record<string, number>
  /** What is printed for people. */
  readonly lines: readonly string[]
  /** What could not be compared, and why. */
  readonly notCompared: readonly string[]
}

/** What a part is told; each takes of it what concerns it. */
export interface BenchOptions {
  /** Only what the ratios need. */
  readonly quick: boolean
  /** Proxies to measure, by name; without it all. */
  readonly only?: readonly string[]
  /** A built checkout whose proxy is measured beside ours. */
  readonly baseline?: string
  /** Folder for profiles of ours: then nothing is compared. */
  readonly profile?: string
}
