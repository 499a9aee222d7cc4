import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { root } from "../repo.mjs";

/**
 * A table of rules as the code has it: `const someRules = { … } satisfies RulesOf<Options>`, of an interface that is exported.
 * @typedef {object} Table
 * @property {string} type The interface beside it.
 * @property {string} doc Its comment.
 * @property {Option[]} options In the order of the table.
 *
 * @typedef {object} Option
 * @property {string} name
 * @property {string} type As TypeScript writes it, without undefined.
 * @property {string} doc
 * @property {string | undefined} usual The text of `@default`.
 * @property {import("@kit/core/toolkit").Rule} rule
 */

/** Finds the tables, and comes before the name of the interface. */
const mark = "satisfies RulesOf<";

/**
 * The tables of each package, by file and place in it. The rules are read from the running code, and the comments by the compiler,
 * which needs the packages built: an interface may extend one of core.
 * @param {readonly import("../pack.mjs").Workspace[]} packages
 * @returns {Promise<{ folder: string, tables: Table[] }[]>}
 */
export async function tablesOf(packages) {
  const files = packages.map(({ folder }) => ({ folder, paths: filesWithTables(join(folder, "src")) }));
  const read = readerOf(files.flatMap(({ paths }) => paths));
  return await Promise.all(
    files
      .filter(({ paths }) => paths.length > 0)
      .map(async ({ folder, paths }) => {
        const values = await running(folder, paths);
        return { folder, tables: paths.flatMap((path, index) => read(path, values[index] ?? {})) };
      }),
  );
}

/** @param {string} folder @returns {string[]} */
const filesWithTables = (folder) =>
  readdirSync(folder, { withFileTypes: true, recursive: true })
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => path.endsWith(".ts") && readFileSync(path, "utf8").includes(mark))
    .sort();

/**
 * Runs the files, and returns their exports and tables of rules.
 * @param {string} folder
 * @param {readonly string[]} paths
 * @returns {Promise<Record<string, Record<string, import("@kit/core/toolkit").Rule>>[]>}
 */
async function running(folder, paths) {
  // esbuild comes with tsup, which does the builds.
  const fromBuild = createRequire(join(root, "tooling", "build", "package.json"));
  const esbuild = createRequire(fromBuild.resolve("tsup"))("esbuild");
  const names = paths.map((_, index) => `file${index}`);
  const imports = paths.map((path, index) => `import * as file${index} from ${JSON.stringify(path)};`);
  const { outputFiles } = await esbuild.build({
    stdin: { contents: `${imports.join("\n")}\nexport default [${names.join()}];`, resolveDir: folder },
    bundle: true,
    write: false,
    format: "esm",
    platform: "node",
    target: "node20",
    loader: { ".lua": "text" },
    external: ["ioredis", "@opentelemetry/api"],
    plugins: [{ name: "tables", setup: exportTables }],
    logLevel: "silent",
  });
  const module = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);
  return module.default;
}

/** @param {{ onLoad: (options: { filter: RegExp }, load: (args: { path: string }) => unknown) => void }} build */
const exportTables = ({ onLoad }) =>
  onLoad({ filter: /src\/.*\.ts$/ }, ({ path }) => {
    const text = readFileSync(path, "utf8");
    return { loader: "ts", contents: text.includes(mark) ? text.replace(/^const (\w+Rules) =/gm, "export $&") : text };
  });

/**
 * Reads the tables of a file, given what it exports.
 * @param {readonly string[]} paths All files that will be read.
 * @returns {(path: string, values: Record<string, Record<string, import("@kit/core/toolkit").Rule>>) => Table[]}
 */
function readerOf(paths) {
  /** @type {typeof import("typescript")} */
  const ts = createRequire(join(root, "package.json"))("typescript");
  const program = ts.createProgram(paths, {
    target: ts.ScriptTarget.ES2023,
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    strict: true,
    exactOptionalPropertyTypes: true,
    skipLibCheck: true,
    noEmit: true,
    types: [],
  });
  const checker = program.getTypeChecker();
  /** @param {import("typescript").Symbol | undefined} symbol */
  const docOf = (symbol) => ts.displayPartsToString(symbol?.getDocumentationComment(checker));

  /** @param {import("typescript").InterfaceDeclaration} declaration */
  const isExported = ({ modifiers }) => (modifiers ?? []).some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword);

  /** @param {import("typescript").Symbol} symbol */
  const usualOf = (symbol) => {
    const tag = symbol.getJsDocTags(checker).find(({ name }) => name === "default");
    return tag === undefined ? undefined : ts.displayPartsToString(tag.text).trim();
  };

  return (path, values) => {
    const tables = /** @type {Table[]} */ ([]);
    for (const statement of program.getSourceFile(path)?.statements ?? []) {
      if (!ts.isVariableStatement(statement)) continue;
      for (const { name, initializer } of statement.declarationList.declarations) {
        const rules = values[name.getText()];
        if (rules === undefined || !initializer || !ts.isSatisfiesExpression(initializer)) continue;
        const node = initializer.type;
        const options = ts.isTypeReferenceNode(node) ? node.typeArguments?.[0] : undefined;
        if (options === undefined) continue;
        const type = checker.getTypeFromTypeNode(options);
        const named = ts.isTypeReferenceNode(options) ? checker.getSymbolAtLocation(options.typeName) : undefined;
        const [declaration] = named?.declarations ?? [];
        // An interface of this file that is not exported is a part of others.
        if (declaration && ts.isInterfaceDeclaration(declaration) && !isExported(declaration)) continue;
        tables.push({
          type: named?.name ?? options.getText(),
          doc: docOf(named),
          options: Object.entries(rules).flatMap(([option, rule]) => {
            const symbol = type.getProperty(option);
            if (symbol === undefined) return [];
            const given = checker.getNonNullableType(checker.getTypeOfSymbolAtLocation(symbol, node));
            // The compiler lists the members of a union in the order in which it met them, which differs from run to run.
            const members =
              given.isUnion() && given.types.every((one) => one.isStringLiteral()) ? given.types : [given];
            const texts = members.map((one) => checker.typeToString(one)).sort();
            const text = [...texts, ...(rule.nullable ? ["null"] : [])].join(" | ");
            return [{ name: option, type: text, doc: docOf(symbol), usual: usualOf(symbol), rule }];
          }),
        });
      }
    }
    return tables;
  };
}
