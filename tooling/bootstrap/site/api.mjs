import { existsSync } from "node:fs";
import { basename, join, relative, sep } from "node:path";
import { withoutCode } from "../checks/links.mjs";
import { publicPackages } from "../pack.mjs";
import { docOf, ts } from "../reference/comments.mjs";
import { root } from "../repo.mjs";

/** @typedef {import("typescript").Node} Node */
/** @typedef {import("typescript").Declaration} Declaration */
/** @typedef {import("./documents.mjs").Page} Page */

/** Entries that are for the command line and for authors of packages. */
const unshown = ["./package.json", "./descriptor", "./toolkit", "./batching", "./leasing"];

/**
 * A page for each package with what its entries export: functions and methods with their comments, types as the source has them.
 * Options and errors have tables in the reference. Only the sources are read; nothing need be built.
 * @param {ReturnType<typeof publicPackages>} [packages]
 * @returns {Page[]}
 */
export function apiPages(packages = publicPackages()) {
  const entries = packages.flatMap(({ folder, manifest: { name, exports = {} } }) =>
    Object.keys(exports)
      .filter((path) => !unshown.includes(path))
      .map((path) => ({ folder, name: name + path.slice(1), file: join(folder, "src", path, "index.ts") })),
  );
  const core = join(root, "packages", "core", "src");
  const program = ts.createProgram(
    entries.map(({ file }) => file),
    {
      module: ts.ModuleKind.NodeNext,
      moduleResolution: ts.ModuleResolutionKind.NodeNext,
      noLib: true,
      types: [],
      paths: { "@kit/core": [join(core, "index.ts")], "@kit/core/*": [join(core, "*", "index.ts")] },
    },
  );
  return packages.flatMap(({ folder, manifest: { name } }) => {
    const own = entries.filter((entry) => entry.folder === folder);
    const sections = own.map((entry) => `## \`${entry.name}\`\n\n${entrySection(program, entry)}`);
    const short = basename(folder);
    const made = "Made from the comments of the source.";
    const hasReference = existsSync(join(folder, "docs", "reference.md"));
    const intro = hasReference ? `${made} [Options, errors and keys](reference.md) have tables of their own.` : made;
    const text = [`# API of ${name}`, intro, ...sections].join("\n\n");
    // It lies beside the reference, so that its links do.
    const file = `packages/${short}/docs/api.md`;
    return own.length === 0 ? [] : [{ file, address: `${short}/api`, title: `API of ${name}`, text: `${text}\n` }];
  });
}

/** @param {import("typescript").Program} program @param {{ file: string }} entry */
function entrySection(program, { file }) {
  const checker = program.getTypeChecker();
  const source = program.getSourceFile(file);
  const module = source && checker.getSymbolAtLocation(source);
  if (module === undefined) throw new Error(`${relative(root, file)} is no module`);
  /** @type {{ order: number, text: string }[]} */
  const parts = [];
  for (const exported of checker.getExportsOfModule(module)) {
    const declarations = declarationsOf(exported, checker);
    const part = declarations[0] && partOf(exported.name, declarations, checker);
    if (part !== undefined) parts.push(part);
  }
  return parts
    .sort((a, b) => a.order - b.order)
    .map(({ text }) => text)
    .join("\n\n");
}

/** The declarations in our own sources. @param {import("typescript").Symbol} symbol @param {import("typescript").TypeChecker} checker */
function declarationsOf(symbol, checker) {
  const meant = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
  const ours = join(root, "packages").split(sep).join("/");
  return (meant.declarations ?? []).filter((one) => {
    const { fileName } = one.getSourceFile();
    return fileName.startsWith(`${ours}/`) && !fileName.includes("/node_modules/") && !ts.isModuleDeclaration(one);
  });
}

/** @param {string} name @param {readonly Declaration[]} declarations @param {import("typescript").TypeChecker} checker */
function partOf(name, declarations, checker) {
  const first = /** @type {Declaration} */ (declarations[0]);
  const functions = declarations.filter(ts.isFunctionDeclaration);
  const write = (/** @type {import("typescript").SignatureDeclaration} */ one) => `function ${signature(name, one)}`;
  if (functions.length > 0) return { order: 0, text: callSection(3, name, functions, write) };
  if (ts.isClassDeclaration(first))
    return isError(first) ? undefined : { order: 1, text: classSection(name, first, checker) };
  // The reference has a table of each of these.
  if (ts.isInterfaceDeclaration(first) && /(?:Options|ErrorCodes?)$/.test(name)) return undefined;
  if (ts.isTypeAliasDeclaration(first) && name.endsWith("ErrorCode")) return undefined;
  const isConstant = ts.isVariableDeclaration(first);
  const doc = comment(isConstant ? first.parent.parent : first);
  if (isConstant && first.initializer && ts.isArrowFunction(first.initializer)) {
    return { order: 0, text: [`### ${name}`, fence(write(first.initializer)), ...doc].join("\n\n") };
  }
  const code = isConstant ? `const ${name}: ${first.type?.getText() ?? "…"}` : first.getText();
  return { order: 2, text: [`### ${name}`, ...doc, fence(code.replace(/^export /, ""))].join("\n\n") };
}

/** @param {import("typescript").ClassDeclaration} node */
const isError = (node) => node.members.some((one) => ts.isPropertyDeclaration(one) && one.name.getText() === "brand");

/** Its events and listeners are Node's. */
const emitter = "TypedEmitter";

/** A class and the classes of ours that it extends. @param {import("typescript").ClassDeclaration} node @param {import("typescript").TypeChecker} checker @returns {import("typescript").ClassDeclaration[]} */
function withBases(node, checker) {
  const parent = node.heritageClauses?.find(({ token }) => token === ts.SyntaxKind.ExtendsKeyword)?.types[0]
    ?.expression;
  const symbol = parent && parent.getText() !== emitter ? checker.getSymbolAtLocation(parent) : undefined;
  const base = symbol && declarationsOf(symbol, checker).find(ts.isClassDeclaration);
  return [node, ...(base ? withBases(base, checker) : [])];
}

/** @param {string} name @param {import("typescript").ClassDeclaration} node @param {import("typescript").TypeChecker} checker */
function classSection(name, node, checker) {
  const parents = (node.heritageClauses ?? []).map((clause) => ` ${clause.getText()}`).join("");
  const head = [`### ${name}`, ...comment(node), fence(`class ${name}${typeParameters(node)}${parents}`)];
  const seen = new Set();
  const all = withBases(node, checker).flatMap((one) =>
    one.members.map((member) => ({ member, siblings: one.members })),
  );
  const members = all.flatMap(({ member, siblings }) => {
    const called = member.name?.getText() ?? "";
    if (!isPublic(member) || seen.has(called)) return [];
    seen.add(called);
    if (ts.isMethodDeclaration(member)) {
      const same = siblings.filter(ts.isMethodDeclaration).filter((one) => one.name.getText() === called);
      return [callSection(4, called, same, (one) => `${modifiers(one)}${signature(called, one)}`)];
    }
    if (!ts.isGetAccessor(member) && !ts.isPropertyDeclaration(member)) return [];
    const type = member.type?.getText() ?? "…";
    const word = ts.isGetAccessor(member) ? "readonly " : modifiers(member);
    return [[`#### ${escaped(called)}`, ...comment(member), fence(`${word}${called}: ${type}`)].join("\n\n")];
  });
  return [...head, ...members].join("\n\n");
}

/** @param {import("typescript").ClassElement} member */
const isPublic = (member) => {
  const hidden = [ts.SyntaxKind.PrivateKeyword, ts.SyntaxKind.ProtectedKeyword];
  return (
    member.name !== undefined &&
    !ts.isPrivateIdentifier(member.name) &&
    !(ts.canHaveModifiers(member) && ts.getModifiers(member)?.some(({ kind }) => hidden.includes(kind))) &&
    !ts.getJSDocTags(member).some(({ tagName }) => tagName.text === "internal")
  );
};

/** @param {import("typescript").ClassElement} node */
const modifiers = (node) =>
  ((ts.canHaveModifiers(node) && ts.getModifiers(node)) || [])
    .map((one) => one.getText())
    .filter((word) => ["static", "readonly"].includes(word))
    .map((word) => `${word} `)
    .join("");

/**
 * A function or method, which may have several signatures: then its implementation is none of them.
 * @template {import("typescript").FunctionDeclaration | import("typescript").MethodDeclaration} T
 * @param {number} level @param {string} name @param {readonly T[]} all @param {(one: T) => string} write
 */
function callSection(level, name, all, write) {
  const shown = all.length > 1 ? all.filter(({ body }) => body === undefined) : all;
  const described = shown.find((one) => docOf(one) !== "") ?? shown[0];
  const heading = `${"#".repeat(level)} ${escaped(name)}`;
  return [heading, fence(shown.map(write).join("\n")), ...(described ? comment(described) : [])].join("\n\n");
}

/** @param {string} name @param {import("typescript").SignatureDeclaration} node */
function signature(name, node) {
  const parameters = node.parameters.map((one) => {
    const optional = (one.questionToken ?? one.initializer) ? "?" : "";
    return `${one.dotDotDotToken ? "..." : ""}${one.name.getText()}${optional}: ${one.type?.getText() ?? "…"}`;
  });
  const before = `${name}${typeParameters(node)}`;
  const after = `: ${node.type?.getText() ?? "void"}`;
  const line = `${before}(${parameters.join(", ")})${after}`;
  return line.length <= 90 ? line : `${before}(\n${parameters.map((one) => `  ${one},\n`).join("")})${after}`;
}

/** @param {{ typeParameters?: import("typescript").NodeArray<import("typescript").TypeParameterDeclaration> | undefined }} node */
const typeParameters = ({ typeParameters: all }) => (all ? `<${all.map((one) => one.getText()).join(", ")}>` : "");

/** The paragraphs of a comment: its text, what is thrown, and examples. @param {Node} node @returns {string[]} */
function comment(node) {
  const tags = ts.getJSDocTags(node);
  const text = (/** @type {import("typescript").JSDocTag} */ tag) =>
    (ts.getTextOfJSDocComment(tag.comment) ?? "").replace(/\{@link (.+?)\}/g, "`$1`").trim();
  const thrown = tags
    .filter(ts.isJSDocThrowsTag)
    .map(
      (tag) =>
        `- ${tag.typeExpression ? `\`${tag.typeExpression.type.getText()}\`: ` : ""}${text(tag).replace(/\s+/g, " ")}`,
    );
  const examples = tags.filter(({ tagName }) => tagName.text === "example").map((tag) => fence(text(tag)));
  return [
    ...[docOf(node)].filter((one) => one !== "").map(escaped),
    ...(thrown.length > 0 ? [`Throws:\n\n${escaped(thrown.join("\n"))}`] : []),
    ...examples,
  ];
}

/** @param {string} code */
const fence = (code) => `\`\`\`ts\n${code.replace(/^```\w*\n|\n```$/g, "")}\n\`\`\``;

/** Comments are no templates: outside of code their angle brackets and braces are text. @param {string} text */
function escaped(text) {
  const prose = withoutCode(text);
  return text.replace(/[<{]/g, (letter, at) => {
    if (prose[at] !== letter) return letter;
    return letter === "<" ? "&lt;" : "&#123;";
  });
}
