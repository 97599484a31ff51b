import { expect, test } from 'vitest'
import { type Import, type Source, sources } from './sources.ts'

/** What a room may import beside itself, Node.js and packages; `type:` allows types only. A trailing `/` is a room. */
const mayImport: Readonly<Record<string, readonly string[]>> = {
  ring: ['errors.ts', 'known-options.ts', 'steps.ts'],
  breaker: ['clock.ts', 'errors.ts'],
  key: ['errors.ts'],
  http: ['errors.ts', 'type:key/key-source.ts', 'type:options.ts'],
  health: ['type:clock.ts', 'type:options.ts'],
  transport: ['http/', 'errors.ts', 'unordered-list.ts', 'type:clock.ts', 'type:options.ts'],
  topology: ['clock.ts', 'errors.ts', 'known-options.ts', 'logger.ts'],
  'topology/etcd': ['topology/', 'clock.ts', 'errors.ts', 'known-options.ts', 'logger.ts'],
  balancer: [
    ...['ring/', 'breaker/', 'errors.ts', 'transport/transport.ts', 'type:clock.ts', 'type:config.ts'],
    ...['type:observe/events.ts', 'type:topology/topology.ts', 'steps.ts'],
  ],
  retry: [
    ...['breaker/rolling-window.ts', 'errors.ts', 'type:balancer/', 'type:clock.ts'],
    ...['type:observe/events.ts', 'type:topology/topology.ts'],
  ],
  proxy: [
    ...[
      'balancer/',
      'http/',
      'key/',
      'retry/',
      'transport/',
      'errors.ts',
      'topology-headers.ts',
      'unordered-list.ts',
    ],
    ...['type:breaker/', 'type:clock.ts', 'type:config.ts', 'type:options.ts'],
    ...['type:observe/events.ts', 'type:topology/topology.ts'],
  ],
  guard: [
    ...['ring/', 'clock.ts', 'errors.ts', 'known-options.ts', 'logger.ts', 'topology-headers.ts'],
    ...['type:topology/topology.ts'],
  ],
  observe: [
    ...[
      'errors.ts',
      'logger.ts',
      'type:balancer/',
      'type:breaker/',
      'type:clock.ts',
      'type:topology/topology.ts',
    ],
  ],
  'clock.ts': [],
  'errors.ts': [],
  'steps.ts': [],
  'unordered-list.ts': [],
  'logger.ts': [],
  'topology-headers.ts': [],
  'options.ts': ['type:key/', 'type:clock.ts', 'type:logger.ts', 'type:topology/topology.ts'],
  'known-options.ts': ['errors.ts'],
  'option-issues.ts': ['known-options.ts'],
  'upstream-tls.ts': ['type:options.ts'],
  'config.ts': [
    ...['key/key.ts', 'clock.ts', 'errors.ts', 'logger.ts', 'option-issues.ts', 'upstream-tls.ts'],
    ...['type:key/', 'type:options.ts', 'type:topology/topology.ts'],
  ],
}

/** Where everything is put together. */
const compositionRoots: readonly string[] = ['index.ts', 'middleware.ts', 'parts.ts']

const isOurs = ({ target }: Import) => target.endsWith('.ts')

function isAllowed({ room }: Source, { target, kind }: Import): boolean {
  if (target.startsWith(`${room}/`) && !target.slice(room.length + 1).includes('/')) return true
  return (mayImport[room] ?? []).some((rule) => {
    const path = rule.replace(/^type:/, '')
    const matches = path.endsWith('/') ? target.startsWith(path) : target === path
    return matches && (rule === path || kind === 'type')
  })
}

test('a room imports only what the house allows it', () => {
  const faults = sources
    .filter(({ path }) => !compositionRoots.includes(path))
    .flatMap((source) =>
      source.imports
        .filter((found) => isOurs(found) && !isAllowed(source, found))
        .map(({ target, kind }) => `${source.path} imports ${target} (${kind})`),
    )
  expect(faults).toEqual([])
})

test('every room has its rule, and every rule is needed', () => {
  const rooms = new Set(sources.map(({ room }) => room).filter((room) => !compositionRoots.includes(room)))
  expect(new Set(Object.keys(mayImport))).toEqual(rooms)
  expect(sources.length).toBeGreaterThan(80)
})

test('nothing imports the index', () => {
  expect(sources.filter(({ imports }) => imports.some(({ target }) => target === 'index.ts'))).toEqual([])
})

test('no file imports itself by whatever detour, not even for a type', () => {
  const imports = new Map(sources.map((source) => [source.path, source.imports.filter(isOurs)]))
  const cycles: string[] = []
  const done = new Set<string>()
  const visit = (path: string, way: readonly string[]) => {
    const at = way.indexOf(path)
    if (at >= 0) cycles.push([...way.slice(at), path].join(' → '))
    if (at >= 0 || done.has(path)) return
    for (const { target } of imports.get(path) ?? []) visit(target, [...way, path])
    done.add(path)
  }
  for (const { path } of sources) visit(path, [])
  expect(cycles).toEqual([])
})

test('what is not used is not loaded: etcd’s client only by a dynamic import, never Express', () => {
  const loaders = (name: string, kinds: readonly Import['kind'][]) =>
    sources
      .filter(({ imports }) => imports.some(({ target, kind }) => target === name && kinds.includes(kind)))
      .map(({ path }) => path)
  expect(loaders('etcd3', ['value'])).toEqual([])
  expect(loaders('etcd3', ['dynamic'])).toEqual(['topology/etcd/client.ts'])
  expect(loaders('cockatiel', ['value'])).toEqual([])
  expect(loaders('express', ['value', 'type', 'dynamic'])).toEqual([])
})

test('only the composition root and the rooms themselves know Prometheus and the transport’s package', () => {
  const importers = (name: string) =>
    new Set(
      sources
        .filter(({ imports }) => imports.some(({ target, kind }) => target === name && kind === 'value'))
        .map(({ room }) => room),
    )
  expect(importers('prom-client')).toEqual(new Set(['observe', 'parts.ts']))
  expect(importers('http-proxy')).toEqual(new Set(['transport']))
  expect(importers('undici')).toEqual(new Set(['transport']))
})
