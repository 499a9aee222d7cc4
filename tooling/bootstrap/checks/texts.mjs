import { parse, ts } from "../reference/comments.mjs";

/** @typedef {{ line: number, text: string }} Text */

/** A text of fewer words is a name, a command or a key. */
const fewestWords = 3;

/**
 * The texts in a source that a user may read, each with its line. Values inside a text become the word x.
 * @param {string} path
 * @param {string} source
 * @param {boolean} [onlyErrors] only texts inside of the creation of an error
 * @returns {Text[]}
 */
export const textsOf = (path, source, onlyErrors = false) =>
  (path.endsWith(".lua") ? repliesOf(source) : literalsOf(path, source, onlyErrors)).filter(
    ({ text }) => text.split(/\s+/).filter((word) => /[a-z]/i.test(word)).length >= fewestWords,
  );

/** The error replies of a script: a code, and a text for people. @param {string} source @returns {Text[]} */
const repliesOf = (source) =>
  [...source.matchAll(/'(?:KIT_[A-Z_]+|ERR) ([^'\n]+)'/g)].map(({ index, 1: text = "" }) => ({
    line: source.slice(0, index).split("\n").length,
    text,
  }));

/**
 * @param {string} path
 * @param {string} source
 * @param {boolean} onlyErrors
 * @returns {Text[]}
 */
function literalsOf(path, source, onlyErrors) {
  const file = parse(source, path);
  /** @type {Text[]} */
  const texts = [];
  /** @type {(node: import("typescript").Node, counts: boolean) => void} */
  const visit = (node, counts) => {
    // A type has no text, and a module's name is none.
    if (ts.isTypeNode(node) || ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) return;
    const text = counts && !isList(node) ? textOf(node) : undefined;
    if (text !== undefined)
      texts.push({ line: file.getLineAndCharacterOfPosition(node.getStart(file)).line + 1, text });
    const isInside = counts || makesError(node);
    ts.forEachChild(node, (child) => {
      // A sum of texts is one text.
      if (text === undefined || !ts.isBinaryExpression(node) || textOf(child) === undefined) visit(child, isInside);
    });
  };
  visit(file, !onlyErrors);
  return texts;
}

/** Whether the texts inside are messages of an error. @param {import("typescript").Node} node */
const makesError = (node) =>
  (ts.isNewExpression(node) || ts.isCallExpression(node)) && /(?:Error|^super|^wrong)$/.test(node.expression.getText());

/** A template over several lines is a list of names or a program. @param {import("typescript").Node} node */
const isList = (node) => ts.isTemplateLiteral(node) && node.getText().includes("\n");

/** The text of a literal, a template or a sum of them. @param {import("typescript").Node} node @returns {string | undefined} */
function textOf(node) {
  if (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node)) return node.text;
  if (ts.isTemplateExpression(node))
    return node.head.text + node.templateSpans.map(({ literal }) => `x${literal.text}`).join("");
  if (!ts.isBinaryExpression(node) || node.operatorToken.kind !== ts.SyntaxKind.PlusToken) return undefined;
  const [left, right] = [textOf(node.left), textOf(node.right)];
  return left === undefined && right === undefined ? undefined : (left ?? "x") + (right ?? "x");
}
