// Writes ring-native.json: where points and keys lie and who owns them, computed without any of the library's code
// (plain xxhashjs on UTF-8 bytes, every owner by looking at every point). A change of that file is a major version.
// Usage: node test/golden/generate.mjs
import { writeFileSync } from 'node:fs'
import xxhash from 'xxhashjs'

function hash(text, seed) {
  const utf8 = new TextEncoder().encode(text)
  return BigInt(xxhash.h64(utf8.buffer.slice(utf8.byteOffset, utf8.byteOffset + utf8.length), seed).toString(10))
}

const hex = (value) => value.toString(16).padStart(16, '0')

function pointsOf(members, virtualNodes, seed) {
  const points = []
  for (const { id, weight } of members) {
    const count = Math.max(1, Math.round(virtualNodes * weight))
    for (let number = 0; number < count; number++) {
      points.push({ id, number, position: hash(id + '#' + number, seed) })
    }
  }
  return points
}

/** Distance from the key to each point, clockwise; of equal ones the smaller id. */
function ownersOf(position, points, count) {
  const owners = []
  while (owners.length < count) {
    let nearest
    for (const point of points) {
      if (owners.includes(point.id)) continue
      const distance = BigInt.asUintN(64, point.position - position)
      if (!nearest || distance < nearest.distance || (distance === nearest.distance && point.id < nearest.id)) {
        nearest = { id: point.id, distance }
      }
    }
    if (!nearest) break
    owners.push(nearest.id)
  }
  return owners
}

function tagged(key) {
  const match = /^[^{]*\{([^}]+)\}/.exec(key)
  return match ? match[1] : key
}

const keys = [
  '', ' ', 'a', 'user', 'Nobody inspects the spammish repetition', 'cart:{user:123}:7', 'user:123', '{}', '{}{x}', '{a',
  'a}b{c}', '{{a}}', '}{', 'привет', '購物車', '🛒', 'é', 'e\u0301', '\u0000', '\ud800', 'x\udc00y', '\udc00\ud800',
  '\ufffd', 'k'.repeat(31), 'k'.repeat(32), 'k'.repeat(33), '長'.repeat(100), 'z'.repeat(4096),
  ...Array.from({ length: 90 }, (_, index) => `user-${index}`),
  ...Array.from({ length: 82 }, (_, index) => `/tenants/${index * 7919}/orders?page=${index}`),
]

const ones = (...ids) => ids.map((id) => ({ id, weight: 1 }))
const topologies = [
  { name: 'one upstream, one point', virtualNodes: 1, seed: '0', hashTags: false, members: ones('a') },
  { name: 'three upstreams, defaults', virtualNodes: 160, seed: '0', hashTags: false, members: ones('c', 'a', 'b') },
  {
    name: 'weights',
    virtualNodes: 40,
    seed: '0',
    hashTags: false,
    members: [
      { id: 'A', weight: 1 },
      { id: 'B', weight: 2 },
      { id: 'C', weight: 4 },
      { id: 'tiny', weight: 0.001 },
      { id: 'third', weight: 1 / 3 },
    ],
  },
  {
    name: 'seed above 2^63, addresses',
    virtualNodes: 8,
    seed: '18446744073709551615',
    hashTags: false,
    members: ones('10.0.0.2:8080', '10.0.0.10:8080', '10.0.0.1:8080', '[::1]:8080'),
  },
  { name: 'seed of 32 bits', virtualNodes: 3, seed: '4294967296', hashTags: false, members: ones('x', 'y') },
  { name: 'hash tags', virtualNodes: 10, seed: '42', hashTags: true, members: ones('n1', 'n2', 'n3', 'n4', 'n5') },
  {
    name: 'ids beyond ASCII and with a number sign',
    virtualNodes: 5,
    seed: '7',
    hashTags: false,
    members: ones('сервер', '伺服器', '🖥', 'a', 'a#1', 'a#1#0', 'Z', 'é'),
  },
]

const golden = topologies.map((topology) => {
  const seed = topology.seed
  const points = pointsOf(topology.members, topology.virtualNodes, seed)
  return {
    ...topology,
    points: points.map(({ id, number, position }) => [id, number, hex(position)]),
    keys: keys.map((key) => {
      const position = hash(topology.hashTags ? tagged(key) : key, seed)
      return [key, hex(position), ownersOf(position, points, 3)]
    }),
  }
})

const lines = golden.map(({ points, keys: placed, ...topology }) => {
  const list = (rows) => `[\n${rows.map((row) => `      ${JSON.stringify(row)}`).join(',\n')}\n    ]`
  const head = JSON.stringify(topology).slice(0, -1)
  return `  ${head},\n    "points": ${list(points)},\n    "keys": ${list(placed)}}`
})
writeFileSync(new URL('ring-native.json', import.meta.url), `[\n${lines.join(',\n')}\n]\n`)
