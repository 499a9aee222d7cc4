import { expressionAt, isIdentifier, isText, redisCalls, type Token } from "./lua.js";

/**
 * The numbers of a source that may be the result of a division and reach a text or a command unrounded: Lua 5.1 writes 2 there,
 * Lua 5.4 writes 2.0. The check reads the source only, and identifies names by their spelling: fields, parameters and results
 * of calls are trusted.
 */
export function writtenFractions(tokens: readonly Token[]): string[] {
  const fractions = namesOfFractions(tokens);
  const written: (readonly Token[])[] = redisCalls(tokens).calls.flatMap(({ args }) => args);
  tokens.forEach((token, at) => {
    if (isText(token, "..")) written.push(operandBefore(tokens, at), operandFrom(tokens, at + 1));
    if (isText(token, "tostring") && isText(tokens[at + 1], "(")) written.push(operandFrom(tokens, at + 2));
  });
  const shown = written.filter((expression) => isFraction(expression, fractions)).map(textOf);
  return [...new Set(shown)];
}

const textOf = (tokens: readonly Token[]): string => tokens.map(({ text }) => text).join(" ");

/** Names to which a fraction is assigned anywhere. */
function namesOfFractions(tokens: readonly Token[]): Set<string> {
  const names = new Set<string>();
  // Each round follows one more assignment, wherever it is in the text.
  for (let size = -1; size !== names.size;) {
    size = names.size;
    tokens.forEach((token, at) => {
      if (!isText(token, "=")) return;
      const targets = targetsBefore(tokens, at);
      const isLoop = isText(tokens[at - 2 * targets.length], "for");
      const values = splitAt(expressionAt(tokens, at + 1, isLoop), ",");
      // A loop counts by the kind of its first number.
      targets.forEach((name, index) => {
        if (name !== undefined && isFraction(values[isLoop ? 0 : index] ?? [], names)) names.add(name);
      });
    });
  }
  return names;
}

/** The names on the left of a `=`, in order; of a field undefined. */
function targetsBefore(tokens: readonly Token[], equals: number): (string | undefined)[] {
  const targets: (string | undefined)[] = [];
  for (let at = equals - 1; isIdentifier(tokens[at]); at -= 2) {
    targets.unshift(isText(tokens[at - 1], ".") ? undefined : tokens[at]?.text);
    if (!isText(tokens[at - 1], ",")) break;
  }
  return targets;
}

const COMPARISONS = ["==", "~=", "<", ">", "<=", ">=", "not"];
const ROOTS = ["sqrt", "log", "log10", "exp", "pow"];

/** Whether an expression may be a number that is written with a fraction. Comparisons and texts are none. */
function isFraction(expression: readonly Token[], names: ReadonlySet<string>): boolean {
  return splitAt(visible(expression), "and", "or").some(
    (part) =>
      !part.some((token) => isText(token, "..", ...COMPARISONS)) &&
      part.some((token, at) => {
        if (token.kind === "number") return /^[\d.]*[.eE]/.test(token.text);
        if (isText(token, "/", "^")) return true;
        const isOwn = isIdentifier(token) && !isText(part[at - 1], ".", ":");
        if (isOwn && names.has(token.text)) return !isText(part[at + 1], ".", "[", "(", ":");
        return isText(token, ...ROOTS) && isText(part[at + 1], "(");
      }),
  );
}

/** Calls that return their argument unchanged. */
const THROUGH = ["max", "min", "abs", "tonumber"];

/** An expression without what is inside calls, indexes and tables. */
function visible(expression: readonly Token[]): Token[] {
  const hidden: boolean[] = [];
  return expression.filter((token, at) => {
    if (isText(token, ")", "]", "}")) hidden.pop();
    const isShown = !hidden.includes(true);
    const callee = expression[at - 1];
    const isCall = isText(token, "(") && (isIdentifier(callee) || isText(callee, ")", "]"));
    if (isText(token, "(")) hidden.push(isCall && !THROUGH.includes(callee?.text ?? ""));
    if (isText(token, "[", "{")) hidden.push(true);
    return isShown;
  });
}

function splitAt(expression: readonly Token[], ...separators: string[]): Token[][] {
  const parts: Token[][] = [[]];
  let depth = 0;
  for (const token of expression) {
    if (isText(token, "(", "[", "{")) depth += 1;
    if (isText(token, ")", "]", "}")) depth -= 1;
    if (depth === 0 && isText(token, ...separators)) parts.push([]);
    else parts.at(-1)?.push(token);
  }
  return parts;
}

const OPENING = ["(", "[", "{"];
const CLOSING = [")", "]", "}"];

function operandBefore(tokens: readonly Token[], end: number): Token[] {
  const operand: Token[] = [];
  for (let at = end - 1, depth = 0; at >= 0; at -= 1) {
    const token = tokens[at] as Token;
    if (isText(token, ...CLOSING)) depth += 1;
    if (isText(token, ...OPENING)) depth -= 1;
    if (depth < 0 || (depth === 0 && (isBoundary(token) || isGap(token, operand[0])))) break;
    operand.unshift(token);
  }
  return operand;
}

function operandFrom(tokens: readonly Token[], start: number): Token[] {
  const operand: Token[] = [];
  for (let at = start, depth = 0; at < tokens.length; at += 1) {
    const token = tokens[at] as Token;
    if (isText(token, ...OPENING)) depth += 1;
    if (isText(token, ...CLOSING)) depth -= 1;
    if (depth < 0 || (depth === 0 && (isBoundary(token) || isGap(operand.at(-1), token)))) break;
    operand.push(token);
  }
  return operand;
}

/** The ends of an operand of `..`: keywords, and operators that bind less. */
const isBoundary = (token: Token): boolean =>
  (token.kind === "name" && !isIdentifier(token)) || isText(token, "..", "=", ",", ";", ...COMPARISONS);

/** Whether a statement ends between two tokens. */
const isGap = (before: Token | undefined, token: Token | undefined): boolean =>
  before !== undefined &&
  (before.kind !== "sign" || isText(before, ...CLOSING)) &&
  (isIdentifier(token) || token?.kind === "number");
