/**
 * What a module of the package imports, and what else of it matters to whoever loads it.
 *
 * @module
 */

import ts from "typescript";

/** An import, export or `import()` of another module. */
export interface Import {
  /** What is imported; undefined if it is known only when the code runs. */
  readonly specifier: string | undefined;
  /** Whether it is loaded only when the code comes to it. */
  readonly dynamic: boolean;
  /** Where the text of the specifier stands, without its quotes. */
  readonly start: number;
}

/** What is in a module. */
export interface Source {
  readonly imports: readonly Import[];
  /** What it refers to by `/// <reference …>`. */
  readonly references: readonly string[];
  /** Whether it has a `using` declaration, which Node 20 does not parse. */
  readonly using: boolean;
  /** The globals of one platform that it mentions. */
  readonly globals: readonly string[];
}

const platformGlobals = new Set(["Deno", "Bun", "require", "__dirname", "__filename"]);

/** Reads a module, in JavaScript or TypeScript. */
export function readSource(path: string, text: string): Source {
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  const imports: Import[] = [];
  const globals = new Set<string>();
  let using = false;

  const add = (node: ts.Node | undefined, dynamic: boolean) => {
    const specifier = node && ts.isStringLiteralLike(node) ? node.text : undefined;
    imports.push({ specifier, dynamic, start: node ? node.getStart(file) + 1 : 0 });
  };
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node) || (ts.isExportDeclaration(node) && node.moduleSpecifier)) {
      add(node.moduleSpecifier, false);
    } else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      add(node.arguments[0], true);
    } else if (ts.isImportTypeNode(node)) {
      add(ts.isLiteralTypeNode(node.argument) ? node.argument.literal : undefined, false);
    } else if (ts.isVariableDeclarationList(node)) {
      using ||= (node.flags & ts.NodeFlags.Using) !== 0;
    } else if (ts.isIdentifier(node) && platformGlobals.has(node.text) && !namesProperty(node)) {
      globals.add(node.text);
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  const references = [...file.referencedFiles, ...file.typeReferenceDirectives];
  return {
    imports,
    references: references.map(({ fileName }) => fileName),
    using,
    globals: [...globals],
  };
}

function namesProperty(identifier: ts.Identifier): boolean {
  const { parent } = identifier;
  return (ts.isPropertyAccessExpression(parent) || ts.isPropertyAssignment(parent)) &&
    parent.name === identifier;
}
