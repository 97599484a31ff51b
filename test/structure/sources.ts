import { readdirSync, readFileSync } from 'node:fs'
import { posix } from 'node:path'
import ts from 'typescript'

const root = new URL('../../src/', import.meta.url).pathname

/** One import of a source file. */
export interface Import {
  /** A path below `src/`, or a package's name. */
  readonly target: string
  readonly kind: 'value' | 'type' | 'dynamic'
}

/** One source file, parsed. */
export interface Source {
  /** Below `src/`. */
  readonly path: string
  /** Its folder; the path itself for a file at the top. */
  readonly room: string
  readonly lines: readonly string[]
  readonly imports: readonly Import[]
  readonly tree: ts.SourceFile
}

export const sources: readonly Source[] = readdirSync(root, { recursive: true })
  .map(String)
  .filter((path) => path.endsWith('.ts'))
  .sort()
  .map(parse)

function parse(path: string): Source {
  const text = readFileSync(root + path, 'utf8')
  const tree = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true)
  const imports: Import[] = []
  for (const node of descendants(tree)) {
    const found = importOf(node)
    if (found) imports.push({ ...found, target: resolve(path, found.target) })
  }
  const room = path.includes('/') ? posix.dirname(path) : path
  return { path, room, lines: text.replace(/\n$/, '').split('\n'), imports, tree }
}

export function* descendants(node: ts.Node): Generator<ts.Node> {
  yield node
  for (const child of node.getChildren()) yield* descendants(child)
}

/** `path:line` of a node, as editors take it. */
export function place({ path, tree }: Source, node: ts.Node): string {
  return `${path}:${tree.getLineAndCharacterOfPosition(node.getStart()).line + 1}`
}

function importOf(node: ts.Node): Import | undefined {
  if (ts.isImportDeclaration(node) && ts.isStringLiteral(node.moduleSpecifier)) {
    const kind =
      node.importClause?.phaseModifier === ts.SyntaxKind.TypeKeyword || onlyTypes(node) ? 'type' : 'value'
    return { target: node.moduleSpecifier.text, kind }
  }
  if (ts.isExportDeclaration(node) && node.moduleSpecifier && ts.isStringLiteral(node.moduleSpecifier)) {
    return { target: node.moduleSpecifier.text, kind: node.isTypeOnly ? 'type' : 'value' }
  }
  if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) {
    return { target: node.argument.literal.getText().slice(1, -1), kind: 'type' }
  }
  if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
    return { target: node.arguments[0]?.getText().slice(1, -1) ?? '', kind: 'dynamic' }
  }
  return undefined
}

/** `import { type A, type B } from …` */
function onlyTypes({ importClause }: ts.ImportDeclaration): boolean {
  const bindings = importClause?.namedBindings
  if (!importClause || importClause.name || !bindings || !ts.isNamedImports(bindings)) return false
  return bindings.elements.every((element) => element.isTypeOnly)
}

function resolve(from: string, target: string): string {
  return target.startsWith('.') ? posix.join(posix.dirname(from), target) : target
}
