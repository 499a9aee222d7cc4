import { docOf, ts } from "./comments.mjs";
import { firstParagraph, oneLine, table } from "./markdown.mjs";

/** @typedef {import("typescript").SourceFile} SourceFile */
/** @typedef {{ code: string, name: string, text: string }} Row */

const core = "@kit/core";

/**
 * The section with the codes of a package, and what is wrong in its files `errors.ts`.
 *
 * A public class of errors, one with a `brand`, is described by the first paragraph of its comment. Its code is the literal in
 * `super("KIT_…`. A class with several codes lists them in its comment, and the type `…ErrorCode` lists those that have no
 * class of their own: ``- `KIT_…`: when``.
 * @param {string} packageName
 * @param {readonly SourceFile[]} files
 * @returns {{ text: string, problems: string[] }}
 */
export function errorsSection(packageName, files) {
  const { rows, problems } = collect(files);
  if (rows.length === 0) return { text: "", problems };
  const cells = rows.map(({ code, name, text }) => [`\`${code}\``, `\`${name}\``, text]);
  return { text: ["## Errors", table(["Code", "Class", "When"], cells), closing(packageName)].join("\n\n"), problems };
}

/** The codes of a package with their classes and comments, by the alphabet. @param {readonly SourceFile[]} files */
export const rowsOf = (files) => collect(files).rows;

/** @param {readonly SourceFile[]} files */
function collect(files) {
  /** @type {Row[]} */
  const rows = [];
  /** @type {string[]} */
  const problems = [];
  const codes = new Set(files.flatMap(codesOf));
  for (const statement of files.flatMap(({ statements }) => [...statements])) {
    const name = ts.isClassDeclaration(statement) ? publicName(statement) : undefined;
    const doc = docOf(statement);
    const listed = listIn(doc);
    const code = name === undefined ? undefined : literalCode(statement);
    if (name !== undefined && code !== undefined) {
      rows.push({ code, name, text: firstParagraph(doc) });
      if (listed.length > 0) problems.push(`${name} has one code, and lists several`);
    } else if (name !== undefined && listed.length === 0 && !isBase(statement))
      problems.push(`${name} has no code in \`super("KIT_…"\`, and its comment lists none`);
    else rows.push(...listed.map((row) => ({ ...row, name: name ?? "KitError" })));
  }
  for (const { code, text } of rows) {
    if (text === "") problems.push(`${code} has no comment`);
    if (!codes.has(code)) problems.push(`${code} is in no type of codes`);
  }
  for (const code of codes) {
    const times = rows.filter((row) => row.code === code).length;
    if (times === 0) problems.push(`${code} is described nowhere`);
    if (times > 1) problems.push(`${code} is described more than once`);
  }
  return { rows: rows.toSorted((a, b) => (a.code < b.code ? -1 : 1)), problems };
}

/** @param {string} packageName */
const closing = (packageName) =>
  packageName === core
    ? "An invalid option throws a `TypeError` or `RangeError` that names the expected and the given value. If your `signal` aborts, the call rejects with `signal.reason`."
    : "The codes that all packages have in common (`KIT_UNAVAILABLE`, `KIT_UNKNOWN_OUTCOME`, …) are on [core's page](../../core/docs/reference.md#errors).";

/** The codes in the unions `export type …ErrorCode`. @param {SourceFile} file */
const codesOf = ({ statements }) =>
  statements.filter(isCodeType).flatMap(({ type }) => {
    const members = ts.isUnionTypeNode(type) ? [...type.types] : [type];
    return members.flatMap((member) =>
      ts.isLiteralTypeNode(member) && ts.isStringLiteral(member.literal) ? [member.literal.text] : [],
    );
  });

/** @param {import("typescript").Node} node @returns {node is import("typescript").TypeAliasDeclaration} */
const isCodeType = (node) => ts.isTypeAliasDeclaration(node) && node.name.text.endsWith("ErrorCode");

/** The name of a class with a brand, which every public class of errors has. @param {import("typescript").ClassDeclaration} node */
const publicName = ({ name, members }) =>
  members.some((member) => ts.isPropertyDeclaration(member) && member.name.getText() === "brand")
    ? name?.text
    : undefined;

/** Whether a class is the base of all errors. @param {import("typescript").Node} node */
const isBase = (node) =>
  ts.isClassDeclaration(node) &&
  node.heritageClauses?.some(({ types }) => types.some(({ expression }) => expression.getText() === "Error")) === true;

/** The code in `super("KIT_…"`. @param {import("typescript").Node} node @returns {string | undefined} */
const literalCode = (node) => {
  if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.SuperKeyword) {
    const [code] = node.arguments;
    return code && ts.isStringLiteral(code) ? code.text : undefined;
  }
  return ts.forEachChild(node, literalCode);
};

/** The items of a list of codes. @param {string} doc */
const listIn = (doc) =>
  [...doc.matchAll(/^- `(KIT_[A-Z0-9_]+)`: (.*(?:\n(?!- ).*\S.*)*)/gm)].map(([, code = "", text = ""]) => ({
    code,
    text: oneLine(text)
      .replace(/\.$/, "")
      .replace(/^[a-z]/, (letter) => letter.toUpperCase()),
  }));
