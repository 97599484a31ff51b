import { readFileSync } from 'node:fs'
import { Registry } from 'prom-client'
import ts from 'typescript'
import { expect, test } from 'vitest'
import { consistentHashProxy } from '../../src/index.ts'
import { ScriptedTopology } from '../support/scripted-topology.ts'

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')

/** The cells of the rows of one table in docs/metrics.md, the first two lines left out. */
function tableRows(name: string): string[][] {
  const [, table = ''] =
    new RegExp(`<!-- ${name} -->\n([\\s\\S]*?)<!-- /${name} -->`).exec(read('docs/metrics.md')) ?? []
  const rows = table.trim().split('\n').slice(2)
  return rows.map((row) =>
    row
      .slice(1, -1)
      .split('|')
      .map((cell) => cell.trim()),
  )
}

const quoted = (cell = '') => [...cell.matchAll(/`([^`]+)`/g)].map(([, text]) => text)

test('docs/metrics.md lists every metric with its type and labels, in order, and nothing else', async () => {
  const registry = new Registry()
  const proxy = consistentHashProxy({
    key: 'ip',
    topology: new ScriptedTopology(),
    metrics: { registry, prefix: 'p_' },
  })
  const metrics = (await registry.getMetricsAsJSON()).map(({ name, type }) => [
    name.replace(/^p_/, ''),
    String(type),
    Reflect.get(registry.getSingleMetric(name) ?? {}, 'labelNames'),
  ])
  const documented = tableRows('metrics').map(([name, type, labels]) => [
    ...quoted(name),
    type,
    quoted(labels),
  ])
  expect(documented).toEqual(metrics)
  for (const [, , , meaning] of tableRows('metrics')) expect(meaning).toMatch(/\.$/)
  await proxy.close()
})

test('docs/metrics.md lists every event with its details, in order, and nothing else', () => {
  const tree = ts.createSourceFile('events.ts', read('src/observe/events.ts'), ts.ScriptTarget.Latest, true)
  const events = tree.statements
    .filter(ts.isInterfaceDeclaration)
    .filter(({ name }) => name.text === 'ProxyEvents')
    .flatMap(({ members }) => [...members])
    .map((event) => [event.name?.getText(), detailsOf(event)])
  expect(tableRows('events').map(([name, details]) => [...quoted(name), quoted(details)])).toEqual(events)
  expect(events.length).toBeGreaterThan(10)
})

/** The names of the fields of an event's one argument. */
function detailsOf(node: ts.Node): (string | undefined)[] {
  if (ts.isTypeLiteralNode(node)) return node.members.map(({ name }) => name?.getText())
  return node.getChildren().flatMap(detailsOf)
}
