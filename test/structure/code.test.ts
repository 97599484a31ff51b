import ts from 'typescript'
import { describe, expect, test } from 'vitest'
import { descendants, place, type Source, sources } from './sources.ts'

/** `path:line` of every node that `isFault` finds. */
function faults(isFault: (node: ts.Node, source: Source) => boolean, within = sources): string[] {
  return within.flatMap((source) =>
    [...descendants(source.tree)]
      .filter((node) => isFault(node, source))
      .map((node) => `${place(source, node)} ${node.getText().split('\n', 1)}`),
  )
}

describe('size', () => {
  test('no file has more than 250 lines, and half of them at most 90', () => {
    expect(sources.filter(({ lines }) => lines.length > 250).map(({ path }) => path)).toEqual([])
    const sizes = sources.map(({ lines }) => lines.length).sort((a, b) => a - b)
    expect(sizes[Math.floor(sizes.length / 2)]).toBeLessThanOrEqual(90)
  })

  test('no function has more than 50 lines or five parameters', () => {
    const linesOf = (node: ts.Node, { tree }: Source) =>
      tree.getLineAndCharacterOfPosition(node.end).line -
      tree.getLineAndCharacterOfPosition(node.getStart()).line +
      1
    expect(faults((node, source) => ts.isFunctionLike(node) && linesOf(node, source) > 50)).toEqual([])
    expect(faults((node) => ts.isFunctionLike(node) && node.parameters.length > 5)).toEqual([])
  })
})

describe('time and chance come from the clock', () => {
  /** Who reads the wall clock all the same, and why. */
  const exceptions: ReadonlyMap<string, readonly string[]> = new Map([
    ['clock.ts', ['performance.now', 'Math.random', 'setTimeout', 'clearTimeout']],
    // A date in `Retry-After` is wall time (RFC 9110 §10.2.3).
    ['proxy/retry-plan.ts', ['Date.now']],
    // gRPC deadlines are wall time.
    ['topology/etcd/client.ts', ['Date.now']],
    // A copy on disk outlives the process, and with it the zero of the clock.
    ['topology/disk-snapshot.ts', ['Date.now']],
    ['topology/etcd/publisher.ts', ['Date.now']],
  ])
  const forbidden =
    /^(Date\.\w+|performance\.\w+|Math\.random|AbortSignal\.timeout|process\.\w+|(set|clear)(Timeout|Interval)|new Date)$/

  /** `Date.now`, `setTimeout` and their like; a member of that name, as `clock.setTimeout`, is another thing. */
  function nameOf(node: ts.Node): string {
    if (ts.isPropertyAccessExpression(node) && ts.isIdentifier(node.expression)) return node.getText()
    if (ts.isNewExpression(node)) return `new ${node.expression.getText()}`
    const isMember = node.parent && 'name' in node.parent && node.parent.name === node
    return ts.isIdentifier(node) && !isMember ? node.text : ''
  }

  test('nowhere else, but for what has to be wall time', () => {
    const found = faults((node, { path }) => {
      if (node.kind === ts.SyntaxKind.SourceFile) return false
      const name = nameOf(node)
      if (name === 'Date.parse') return false
      return forbidden.test(name) && !exceptions.get(path)?.includes(name)
    })
    expect(found).toEqual([])
  })

  test('every exception is still one', () => {
    for (const [path, names] of exceptions) {
      const source = sources.filter((one) => one.path === path)
      if (source.length === 0) continue
      for (const name of names) {
        expect(
          faults((node) => node.parent && nameOf(node) === name, source),
          `${path} ${name}`,
        ).not.toEqual([])
      }
    }
  })
})

describe('types', () => {
  test('no `any`, no `!`, no suppressed error', () => {
    expect(faults((node) => node.kind === ts.SyntaxKind.AnyKeyword)).toEqual([])
    expect(faults((node) => ts.isNonNullExpression(node))).toEqual([])
    const suppressed = sources.filter(({ lines }) => lines.some((line) => /@ts-|biome-ignore/.test(line)))
    expect(suppressed.map(({ path }) => path)).toEqual([])
  })

  test('`as unknown as` has its reason beside it', () => {
    const isDoubleCast = (node: ts.Node) =>
      ts.isAsExpression(node) &&
      ts.isAsExpression(node.expression) &&
      node.expression.type.kind === ts.SyntaxKind.UnknownKeyword
    const found = faults((node, { tree, lines }) => {
      if (!isDoubleCast(node)) return false
      const last = tree.getLineAndCharacterOfPosition(node.end).line
      const before = tree.getLineAndCharacterOfPosition(node.parent.getStart()).line
      const around = [...lines.slice(Math.max(0, before - 5), before), lines[last]].join('\n')
      return !/\/\/|\*/.test(around)
    })
    expect(found).toEqual([])
  })
})

test('no module keeps state: two proxies in one process share nothing', () => {
  // Which of two engines computes the same pure function: seen in the time it takes and in nothing else.
  const exceptions = ['ring/xxh64.ts']
  const found = sources.flatMap((source) =>
    source.tree.statements
      .filter((node) => ts.isVariableStatement(node) && !(node.declarationList.flags & ts.NodeFlags.Const))
      .map(() => source.path),
  )
  expect(found).toEqual(exceptions)
})

test('nothing is left to be done', () => {
  const found = sources.flatMap(({ path, lines }) =>
    lines.flatMap((line, index) => (/TODO|FIXME|XXX|console\./.test(line) ? [`${path}:${index + 1}`] : [])),
  )
  expect(found).toEqual([])
})
