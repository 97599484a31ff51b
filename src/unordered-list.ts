/** What an unordered list keeps knows its place there. */
export interface Placed {
  place: number
}

/**
 * Items in no order, added and removed in constant time without an allocation. A `Set` of short-lived items makes its
 * table anew every few removals, and the old tables keep items from the garbage collector.
 */
export class UnorderedList<Item extends Placed> implements Iterable<Item> {
  readonly #items: Item[] = []

  get size(): number {
    return this.#items.length
  }

  add(item: Item): void {
    item.place = this.#items.push(item) - 1
  }

  /** Does nothing for an item that is not in it. */
  remove(item: Item): void {
    if (this.#items[item.place] !== item) return
    const last = this.#items.pop()
    if (last === undefined || last === item) return
    this.#items[item.place] = last
    last.place = item.place
  }

  clear(): void {
    this.#items.length = 0
  }

  [Symbol.iterator](): Iterator<Item> {
    return [...this.#items].values()
  }
}
