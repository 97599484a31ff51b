/** What one part of the benchmark found. */
export interface BenchReport {
  /** The figures that are held against a bound, by the name that the bound has. */
  readonly ratios: Record<string, number>
  /** What is printed for people. */
  readonly lines: readonly string[]
  /** What could not be compared, and why. */
  readonly notCompared: readonly string[]
}
