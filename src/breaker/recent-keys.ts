/**
 * Tells whether at least `enough` different keys were seen since a moment, and remembers no more than that
 * many: `enough` keys were seen since then exactly if the `enough`-th most recent different key was.
 */
export class RecentKeys {
  readonly #enough: number
  /** The most recent first. */
  #seen: { readonly key: bigint; readonly at: number }[] = []

  constructor(enough: number) {
    this.#enough = enough
  }

  add(key: bigint, now: number): void {
    const others = this.#seen.filter((other) => other.key !== key)
    this.#seen = [{ key, at: now }, ...others].slice(0, this.#enough)
  }

  enoughSince(moment: number): boolean {
    const oldestNeeded = this.#seen[this.#enough - 1]
    return oldestNeeded !== undefined && oldestNeeded.at >= moment
  }

  clear(): void {
    if (this.#seen.length > 0) this.#seen = []
  }
}
