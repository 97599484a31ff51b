/** How many users the load comes from. */
const users = 1000

/** Requests before the keys begin again: enough that no order of theirs shows. */
const length = 4096

/** Users' ids in an order without pattern, the same in every run; of 12 characters each. */
export function uniformKeys(): string[] {
  const next = generator()
  return Array.from({ length }, () => userId(Math.floor(next() * users)))
}

/** As `uniformKeys`, but some users ask far more often than others: Zipf's law with exponent 1.1. */
export function zipfKeys(): string[] {
  const sums: number[] = []
  let sum = 0
  for (let rank = 1; rank <= users; rank++) {
    sum += rank ** -1.1
    sums.push(sum)
  }
  const next = generator()
  return Array.from({ length }, () => {
    const at = next() * sum
    return userId(sums.findIndex((bound) => bound > at))
  })
}

function userId(index: number): string {
  return `user-${String(index).padStart(7, '0')}`
}

/** Numbers from 0 to below 1: mulberry32, from a fixed seed. */
function generator(): () => number {
  let state = 0x9e3779b9
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
