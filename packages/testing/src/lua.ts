/** One token of a Lua 5.1 source; comments and white space are none. */
export interface Token {
  readonly kind: "name" | "string" | "number" | "sign";
  /** The text as written; of a string, the text between its quotes. */
  readonly text: string;
  readonly line: number;
}

const PATTERNS: readonly (readonly [Token["kind"] | "skip", RegExp])[] = [
  ["skip", /\s+/y],
  ["skip", /--\[(=*)\[[^]*?\]\1\]/y],
  ["skip", /--[^\n]*/y],
  ["string", /\[(=*)\[([^]*?)\]\1\]/y],
  ["string", /(["'])((?:\\[^]|(?!\1)[^\\\n])*)\1/y],
  ["number", /0[xX][\da-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?/y],
  ["name", /[A-Za-z_]\w*/y],
  ["sign", /\.\.\.|\.\.|==|~=|<=|>=|[-+*/%^#<>=(){}[\];:,.]/y],
];

const KEYWORDS = new Set(
  "and break do else elseif end false for function if in local nil not or repeat return then true until while".split(
    " ",
  ),
);

/** Splits a source into tokens. Invalid Lua is skipped: the server refuses it with a clearer message. */
export function tokenize(source: string): Token[] {
  const tokens: Token[] = [];
  let line = 1;
  for (let at = 0; at < source.length;) {
    const found = matchAt(source, at);
    const length = found?.match[0].length ?? 1;
    if (found && found.kind !== "skip") {
      tokens.push({ kind: found.kind, text: found.kind === "string" ? (found.match[2] ?? "") : found.match[0], line });
    }
    line += source.slice(at, at + length).split("\n").length - 1;
    at += length;
  }
  return tokens;
}

function matchAt(source: string, at: number): { kind: Token["kind"] | "skip"; match: RegExpExecArray } | undefined {
  for (const [kind, pattern] of PATTERNS) {
    pattern.lastIndex = at;
    const match = pattern.exec(source);
    if (match) return { kind, match };
  }
  return undefined;
}

/** Whether the token is a name that the program defines. */
export const isIdentifier = (token: Token | undefined): boolean => token?.kind === "name" && !KEYWORDS.has(token.text);

export const isText = (token: Token | undefined, ...texts: string[]): boolean =>
  token !== undefined && token.kind !== "string" && texts.includes(token.text);

/** A call `redis.call(...)` or `redis.pcall(...)`, its arguments as lists of tokens. */
export interface RedisCall {
  readonly args: readonly (readonly Token[])[];
}

/** All calls of Redis, and how often `redis` or `redis.call` is used as a value, where the command is not visible. */
export function redisCalls(tokens: readonly Token[]): { calls: RedisCall[]; hidden: number } {
  const calls: RedisCall[] = [];
  let hidden = 0;
  tokens.forEach((token, at) => {
    if (!isText(token, "redis") || isText(tokens[at - 1], ".", ":")) return;
    if (!isText(tokens[at + 1], ".")) hidden += 1;
    if (!isText(tokens[at + 2], "call", "pcall")) return;
    if (isText(tokens[at + 3], "(")) calls.push({ args: argumentsFrom(tokens, at + 4) });
    else hidden += 1;
  });
  return { calls, hidden };
}

function argumentsFrom(tokens: readonly Token[], start: number): Token[][] {
  const args: Token[][] = [[]];
  let depth = 0;
  for (let at = start; at < tokens.length; at += 1) {
    const token = tokens[at] as Token;
    if (isText(token, ")", "]", "}")) depth -= 1;
    if (depth < 0) break;
    if (isText(token, "(", "[", "{")) depth += 1;
    if (depth === 0 && isText(token, ",")) args.push([]);
    else args.at(-1)?.push(token);
  }
  return args.filter((arg) => arg.length > 0);
}

/** A local name and the expression (of its line) that it is given; `undefined` for parameters and bare names. */
export interface Declaration {
  readonly name: string;
  readonly value: readonly Token[] | undefined;
}

/** All names that a source declares, in any scope: locals, functions, parameters and loop variables. */
export function declarations(tokens: readonly Token[]): Declaration[] {
  const found: Declaration[] = [];
  tokens.forEach((token, at) => {
    if (isText(token, "local") && isText(tokens[at + 1], "function")) {
      found.push({ name: tokens[at + 2]?.text ?? "", value: undefined });
    } else if (isText(token, "local", "for")) {
      found.push(...declaredAfter(tokens, at + 1, isText(token, "for")));
    } else if (isText(token, "function")) {
      found.push(...parametersAfter(tokens, at + 1));
    }
  });
  return found;
}

function declaredAfter(tokens: readonly Token[], start: number, isLoop: boolean): Declaration[] {
  const names: string[] = [];
  let at = start;
  while (isIdentifier(tokens[at])) {
    names.push(tokens[at]?.text ?? "");
    at += 1;
    if (!isText(tokens[at], ",")) break;
    at += 1;
  }
  const isGiven = isText(tokens[at], "=", "in");
  const value = isGiven ? expressionAt(tokens, at + 1, isLoop) : undefined;
  return names.map((name) => ({ name, value }));
}

const STATEMENT_ENDS: readonly string[] = "; local return end if then else elseif for while do until repeat".split(" ");

/** From `start` to the end of the statement: of its line and of all brackets opened there; of a loop's head, to `do`. */
export function expressionAt(tokens: readonly Token[], start: number, isLoop: boolean): Token[] {
  const value: Token[] = [];
  let depth = 0;
  for (let at = start; at < tokens.length; at += 1) {
    const token = tokens[at] as Token;
    const before = tokens[at - 1];
    const isNewLine = at > start && token.line !== before?.line && !joins(before, token);
    if (depth === 0 && (isText(token, ...STATEMENT_ENDS) || (isNewLine && !isLoop))) break;
    if (isText(token, "(", "[", "{")) depth += 1;
    if (isText(token, ")", "]", "}")) depth -= 1;
    if (depth < 0) break;
    value.push(token);
  }
  return value;
}

/** Whether an expression goes on over the end of a line. */
const joins = (before: Token | undefined, token: Token): boolean =>
  [before, token].some((end) => isText(end, "..", "and", "or", "+", "-", "*", "/", "%", ",", "=", "=="));

function parametersAfter(tokens: readonly Token[], start: number): Declaration[] {
  const open = tokens.findIndex((token, at) => at >= start && isText(token, "("));
  const close = tokens.findIndex((token, at) => at > open && isText(token, ")"));
  return tokens
    .slice(open + 1, close)
    .filter(isIdentifier)
    .map(({ text }) => ({ name: text, value: undefined }));
}

/** Names used but not declared in the source, each once, with whether it is written. */
export function freeNames(tokens: readonly Token[], declared: ReadonlySet<string>): Map<string, "read" | "written"> {
  const free = new Map<string, "read" | "written">();
  const brackets: string[] = [];
  tokens.forEach((token, at) => {
    if (isText(token, "(", "[", "{")) brackets.push(token.text);
    if (isText(token, ")", "]", "}")) brackets.pop();
    if (!isIdentifier(token) || declared.has(token.text)) return;
    const [before, after] = [tokens[at - 1], tokens[at + 1]];
    if (isText(before, ".", ":")) return;
    const isField = brackets.at(-1) === "{" && isText(after, "=") && isText(before, "{", ",", ";");
    if (isField) return;
    const isWritten = isText(after, "=") || (isText(before, "function") && isText(after, "("));
    if (isWritten || !free.has(token.text)) free.set(token.text, isWritten ? "written" : "read");
  });
  return free;
}
