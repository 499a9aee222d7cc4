import { commandOf62, type KeyPositions, type OptionLimits } from "./commands.js";
import { writtenFractions } from "./fractions.js";
import { declarations, freeNames, isIdentifier, isText, redisCalls, tokenize, type Token } from "./lua.js";

/** A script to check by `contract`. */
export interface ScriptContract {
  /** The script's name; its last part, after a dot, is the name of the file without `.lua`. */
  readonly name: string;
  /**
   * The text of the `.lua` file; or several, libraries first and the script itself last. The libraries replace a line `--
   * Libraries` of the script; without it they come first.
   */
  readonly source: string | readonly string[];
  /** The same texts one by one, if `source` has them joined. */
  readonly sources?: readonly string[];
  /** Names of KEYS in order; a last one written `...leases` takes the rest, and `...leases[key fence]` the rest in rows. */
  readonly keys: readonly string[];
  /** Names of ARGV in order, likewise; `terms: leaseMs inbox` is one argument that carries several values. */
  readonly args: readonly string[];
  /** If the last of ARGV takes a list of records of several kinds: the fields of each kind, in order, by the kind's name. */
  readonly records?: Readonly<Record<string, readonly string[]>>;
}

/** Runs one raw command: a server of `startRedis`, one of its nodes, or an ioredis client. */
export interface CommandRunner {
  call(command: string, ...args: string[]): Promise<unknown>;
}

/**
 * Checks the source of Lua scripts, and lets a server compile them. Returns their faults, one sentence each. The list is empty if
 * there are none.
 *
 * Each script starts with a header, and its body starts with one binding for each operand:
 *
 * ```lua
 * -- extend.lua - push the lease forward, but only for the holder that owns it.
 * --
 * -- KEYS[1]  lease    string   the lock; its value is the holder's token
 * -- ARGV[1]  token    string   token given out by acquire
 * -- ARGV[2]  leaseMs  integer  new time to live, milliseconds
 * --
 * -- Reply     1  extended
 * --           0  not held by this token
 * local lease = KEYS[1]
 * local token = ARGV[1]
 * local leaseMs = tonumber(ARGV[2])
 * ```
 *
 * The names in header, spec and bindings must be the same, in the same order. A rest operand `...leases` has the header line
 * `-- KEYS[n]  leases  string  ...` and the binding `local leases = KEYS` or `{ unpack(KEYS, 2) }`. For an argument
 * `terms: leaseMs inbox` the header has a line for `terms`, and names `leaseMs inbox` in backticks. Every operand must be used.
 * KEYS and ARGV must not appear anywhere else, and no global may be read or written. Redis 6.2 must have all commands and
 * options. The server must accept the whole text.
 *
 * For rows `...changes[id revision]` the header also names `id revision` in backticks, and the body reads them by these names:
 *
 * ```lua
 * for at = 1, #changes, 2 do
 *   local id, revision = unpack(changes, at, at + 1)
 * ```
 *
 * Name a part that you don't need there `_`; you can leave out the last parts. Each part must be read somewhere. No row may be
 * read by position (`changes[at + 1]`).
 *
 * A rest operand can also be a list of different records, whose fields `records` names. All sources read them in the same form, by
 * the names of one kind of record. One of their headers names each kind's fields in backticks.
 *
 * A library starts with `-- name.lua - sentence`. It declares the names that it uses from earlier sources as `-- Needs a, b`, and
 * the names that it defines as `-- Defines f`. It must not use KEYS and ARGV.
 *
 * No key may be built in Lua. This check only reads the source. The key argument of a command must not be a text, contain `..`,
 * or contain a call other than `unpack`. It must not be a local that was assigned ARGV, a concatenation or the result of a call.
 * Parameters of functions are trusted. So are the keys of commands that count them (`ZUNION`, `XREAD`).
 *
 * The result of a division or of `^`, or a number like `1e6`, must pass `math.floor`, `math.ceil` or `string.format` before it
 * reaches a command, `..` or `tostring`. Where Lua 5.1 writes `2`, the Lua 5.4 of some servers writes `2.0`. This check only reads
 * the source as well.
 *
 * @param scripts A list of scripts, or a module. Of a module, all exported scripts are checked, and the `script` of each export.
 *
 * @example
 * import * as scripts from "../src/scripts/index.js";
 * expect(await contract(scripts, redis.server)).toEqual([]);
 */
export async function contract(
  scripts: readonly ScriptContract[] | Readonly<Record<string, unknown>>,
  redis: CommandRunner,
): Promise<string[]> {
  const problems: string[] = [];
  const all = Object.values(scripts).flatMap(scriptsIn);
  if (all.length === 0) problems.push("found no scripts");
  for (const script of all) {
    const sources = script.sources ?? (typeof script.source === "string" ? [script.source] : script.source);
    const found = [...checkSources(script, sources), ...(await checkLoad(joined(sources), redis))];
    problems.push(...found.map((problem) => `${script.name}: ${problem}`));
  }
  return problems;
}

function scriptsIn(value: unknown): ScriptContract[] {
  const { name, source, keys, args, script } = Object(value) as Partial<ScriptContract> & { readonly script?: unknown };
  const isScript = name !== undefined && source !== undefined && Array.isArray(keys) && Array.isArray(args);
  return isScript ? [value as ScriptContract] : script === undefined ? [] : scriptsIn(script);
}

async function checkLoad(text: string, redis: CommandRunner): Promise<string[]> {
  return redis.call("SCRIPT", "LOAD", text).then(
    () => [],
    (error: unknown) => [`the server does not load it: ${error instanceof Error ? error.message : String(error)}`],
  );
}

function joined(sources: readonly string[]): string {
  const libraries = sources.slice(0, -1).join("\n");
  const script = sources.at(-1) ?? "";
  const place = /^-- Libraries$/m;
  return place.test(script) ? script.replace(place, () => libraries) : sources.join("\n");
}

function checkSources(script: ScriptContract, sources: readonly string[]): string[] {
  const problems: string[] = [];
  const given = new Set<string>();
  sources.slice(0, -1).forEach((source) => {
    problems.push(...checkLibrary(source, given));
    for (const { name } of declarations(tokenize(source))) given.add(name);
  });
  const main = sources.at(-1) ?? "";
  problems.push(...checkMain(script, main, given));
  for (const [kind, fields] of Object.entries(script.records ?? {}))
    if (!sources.some((source) => source.includes(`\`${fields.join(" ")}\``)))
      problems.push(`no header describes the record ${kind} as \`${fields.join(" ")}\``);
  if (script.records) problems.push(...checkRecords(sources.flatMap(tokenize), script.args.at(-1), script.records));
  return problems;
}

// The header -----------------------------------------------------------------------------------------------------

interface Operand {
  readonly list: string;
  readonly position: string;
  readonly name: string;
  readonly shape: string;
}

interface Header {
  readonly file: string | undefined;
  readonly lines: readonly string[];
  readonly operands: readonly Operand[];
}

const KEY_TYPES = new Set(["string", "list", "set", "zset", "hash", "stream", "any"]);

function parseHeader(source: string): Header {
  const all = source.split("\n");
  const end = all.findIndex((line) => !line.startsWith("--"));
  const lines = end < 0 ? all : all.slice(0, end);
  const operands = lines.flatMap((line) => {
    const match = /^--\s+(KEYS|ARGV)\[([^\]]*)\]\s+(\S+)\s+(\S+)\s+\S/.exec(line);
    const [, list = "", position = "", name = "", shape = ""] = match ?? [];
    return match ? [{ list, position, name, shape }] : [];
  });
  return { file: /^-- ([\w.-]+)\.lua - \S/.exec(lines[0] ?? "")?.[1], lines, operands };
}

function checkHeader(script: ScriptContract, header: Header): string[] {
  const problems: string[] = [];
  const wanted = script.name.split(".").at(-1) ?? "";
  if (header.file === undefined) problems.push(`the first line is not "-- ${wanted}.lua - what it does"`);
  else if (header.file !== wanted && header.file !== script.name) {
    problems.push(`the header calls it ${header.file}.lua, the script ${wanted}`);
  }
  const broken = header.lines.filter((line) => /^--\s+(KEYS|ARGV)\[/.test(line)).length - header.operands.length;
  if (broken > 0) problems.push(`${broken} operand line(s) of the header lack name, type or meaning`);
  problems.push(...checkOperands("KEYS", script.keys, header), ...checkOperands("ARGV", script.args, header));
  const lists = header.operands.map(({ list }) => list).join(" ");
  if (/ARGV.*KEYS/.test(lists)) problems.push("the header lists ARGV before KEYS");
  for (const { name, shape } of header.operands.filter(({ list }) => list === "KEYS")) {
    if (!KEY_TYPES.has(shape))
      problems.push(
        `the header gives key ${name} the unknown type "${shape}". Known types: ${[...KEY_TYPES].join(", ")}`,
      );
  }
  const reply = header.lines.findIndex((line) => /^--\s+Reply\b/.test(line));
  const replyText =
    reply < 0
      ? ""
      : header.lines
          .slice(reply)
          .join("")
          .replace(/--|Reply/g, "");
  if (!replyText.trim()) problems.push("the header does not describe the reply");
  return problems;
}

function checkOperands(list: string, spec: readonly string[], header: Header): string[] {
  const inHeader = header.operands.filter((operand) => operand.list === list);
  const headerNames = inHeader.map(({ name }) => name).join(", ");
  const specNames = spec.map(plainName).join(", ");
  if (headerNames !== specNames) return [`${list} of the header are (${headerNames}), of the spec (${specNames})`];
  return inHeader.flatMap(({ position, name }, index) => {
    const parts = partsOf(spec[index]);
    if (parts !== undefined && !header.lines.some((line) => line.includes(`\`${parts}\``)))
      return [`the header does not describe ${name} as \`${parts}\``];
    const wanted = isRest(spec[index]) ? "n" : String(index + 1);
    return position === wanted ? [] : [`the header gives ${name} as ${list}[${position}], not ${list}[${wanted}]`];
  });
}

const isRest = (name: string | undefined): boolean => name?.startsWith("...") ?? false;
const plainName = (name: string): string => name.replace(/^\.\.\.|: .*$|\[.*$/g, "");
const rowParts = (name: string): string | undefined => /\[(.+)\]$/.exec(name)?.[1];
const partsOf = (name = ""): string | undefined => rowParts(name) ?? name.split(": ")[1];

// The body -------------------------------------------------------------------------------------------------------

function checkMain(script: ScriptContract, source: string, given: ReadonlySet<string>): string[] {
  const header = parseHeader(source);
  const problems = checkHeader(script, header);
  if (source.startsWith("#!")) problems.push("it starts with #!, which requires Redis 7");
  const { bound, rest } = splitBindings(source.split("\n").slice(header.lines.length));
  const wanted = [
    ...script.keys.map((name, index) => ({ list: "KEYS", name, index })),
    ...script.args.map((name, index) => ({ list: "ARGV", name, index })),
  ].map(({ list, name, index }) => ({ name: plainName(name), form: bindingForm(list, name, index) }));
  wanted.forEach(({ name, form }, index) => {
    const line = bound[index];
    if (line === undefined) problems.push(`operand ${name} is not bound at the top of the body`);
    else if (!form.test(line)) problems.push(`expected the binding of ${name}, got "${line}"`);
  });
  for (const line of bound.slice(wanted.length)) problems.push(`"${line}" binds an operand that is not in the spec`);

  const tokens = tokenize(rest);
  const operands = wanted.map(({ name }) => name);
  for (const list of usesOfOperandLists(tokens)) problems.push(`it uses ${list} outside the bindings`);
  for (const name of operands) {
    if (!tokens.some((token) => isText(token, name))) problems.push(`operand ${name} is not used`);
  }
  for (const operand of [...script.keys, ...script.args]) problems.push(...checkRows(tokens, operand));
  const keyNames = new Set(script.keys.map(plainName));
  const untrusted = operands.filter((name) => !keyNames.has(name));
  problems.push(...checkNames(tokens, new Set([...given, ...operands])), ...checkCalls(tokens, untrusted));
  problems.push(...checkFractions(tokens));
  return problems;
}

function splitBindings(lines: readonly string[]): { bound: string[]; rest: string } {
  const bound: string[] = [];
  let at = 0;
  for (; at < lines.length; at += 1) {
    const line = (lines[at] ?? "").replace(/\s*--.*$/, "").trim();
    if (line === "") continue;
    if (!line.startsWith("local ") || usesOfOperandLists(tokenize(line)).length === 0) break;
    bound.push(line);
  }
  return { bound, rest: lines.slice(at).join("\n") };
}

/** The form of an operand's binding: a key alone, an argument also inside one expression. */
function bindingForm(list: string, name: string, index: number): RegExp {
  const start = `^local ${plainName(name)} = `;
  if (isRest(name)) return new RegExp(`${start}(?:${list}|\\{ ?unpack\\(${list}, ${index + 1}\\) ?\\})$`);
  const operand = `${list}\\[${index + 1}\\]`;
  return new RegExp(
    list === "KEYS" ? `${start}${operand}$` : `${start}(?:(?!KEYS|ARGV).)*${operand}(?:(?!KEYS|ARGV).)*$`,
  );
}

/** Checks that rows are read by the names of their parts, each row as a whole. */
function checkRows(tokens: readonly Token[], operand: string): string[] {
  const parts = rowParts(operand)?.split(" ");
  if (!parts) return [];
  const list = plainName(operand);
  const wanted = `local ${parts.join(", ")} = unpack(${list}, at, at + ${parts.length - 1})`;
  const unread = new Set(parts);
  let isOdd = false;
  tokens.forEach((token, at) => {
    if (!isText(token, list) || isText(tokens[at - 1], ".", ":")) return;
    if (isText(tokens[at - 1], "#")) {
      // The step of the loop over them.
      const isOther = isText(tokens[at + 1], ",") && isText(tokens[at + 3], "do");
      isOdd ||= isOther && !isText(tokens[at + 2], String(parts.length));
      return;
    }
    const names = namesUnpacked(tokens, at);
    isOdd ||= names.length === 0 || names.some((name, index) => name !== "_" && name !== parts[index]);
    for (const name of names) unread.delete(name);
  });
  if (isOdd) return [`it must read rows of ${list} in steps of ${parts.length} and with "${wanted}"`];
  return [...unread].map((part) => `it does not read ${part} of the rows of ${list}`);
}

/** Checks that the records of a list are read by the names of their fields. Functions may pass the list on. */
function checkRecords(
  tokens: readonly Token[],
  operand = "",
  records: Readonly<Record<string, readonly string[]>>,
): string[] {
  const list = plainName(operand);
  const kinds = Object.values(records);
  const unread = new Set(kinds.flat());
  const problems: string[] = [];
  tokens.forEach((token, at) => {
    const [before, after] = [tokens[at - 1], tokens[at + 1]];
    if (!isText(token, list) || isText(before, ".", ":", "#", "local")) return;
    const isBuiltIn = isText(before, "(") && isText(tokens[at - 2], ...BUILT_IN);
    const isPassedOn = isText(before, "(", ",") && isText(after, ",", ")") && !isBuiltIn;
    if (isPassedOn) return;
    const names = namesUnpacked(tokens, at);
    const isOneKind = kinds.some((fields) => names.every((name, index) => name === "_" || name === fields[index]));
    if (names.length === 0 || !isOneKind)
      problems.push(`line ${String(token.line)}: it must read ${list} by the names of one record`);
    for (const name of names) unread.delete(name);
  });
  return [...problems, ...[...unread].map((field) => `it does not read ${field} of the records of ${list}`)];
}

/** The names in `local a, b = unpack(list, at, at + 1)`, of which `at` is the place of `list`; none if it is another statement. */
function namesUnpacked(tokens: readonly Token[], at: number): string[] {
  if (!isText(tokens[at - 1], "(") || !isText(tokens[at - 2], "unpack") || !isText(tokens[at - 3], "=")) return [];
  let first = at - 4;
  while (isText(tokens[first - 1], ",")) first -= 2;
  if (!isText(tokens[first - 1], "local")) return [];
  const names = tokens.slice(first, at - 3).flatMap(({ text }) => (text === "," ? [] : [text]));
  const [comma, from = "", next, ...last] = tokens.slice(at + 1, at + 8).map(({ text }) => text);
  const isFixed = isNumeric(from) && last[0] === String(Number(from) + names.length - 1);
  const ends = isFixed ? [] : names.length === 1 ? [from, ")"] : [from, "+", String(names.length - 1), ")"];
  return comma === "," && next === "," && ends.every((text, index) => last[index] === text) ? names : [];
}

const usesOfOperandLists = (tokens: readonly Token[]): string[] =>
  ["KEYS", "ARGV"].filter((list) => tokens.some((token) => isText(token, list)));

const BUILT_IN: readonly string[] = (
  "redis cjson cmsgpack bit struct string table math tonumber tostring type pairs ipairs next select unpack error " +
  "assert pcall xpcall rawget rawset rawequal setmetatable getmetatable"
).split(" ");

// The members of 6.2; redis.acl_check_cmd, REDIS_VERSION and register_function came with 7.0.
const REDIS_MEMBERS = new Set(
  (
    "call pcall error_reply status_reply sha1hex log LOG_DEBUG LOG_VERBOSE LOG_NOTICE LOG_WARNING setresp set_repl " +
    "REPL_ALL REPL_AOF REPL_REPLICA REPL_SLAVE REPL_NONE replicate_commands breakpoint debug"
  ).split(" "),
);

function checkNames(tokens: readonly Token[], given: ReadonlySet<string>): string[] {
  const own = declarations(tokens).map(({ name }) => name);
  const free = freeNames(tokens, new Set([...own, ...given, ...BUILT_IN, "KEYS", "ARGV"]));
  const problems = [...free].map(([name, use]) => `it ${use === "written" ? "writes" : "reads"} the global ${name}`);
  tokens.forEach((token, at) => {
    if (!isText(tokens[at - 2], "redis") || !isText(tokens[at - 1], ".") || REDIS_MEMBERS.has(token.text)) return;
    problems.push(`it uses redis.${token.text}, which Redis 6.2 does not have`);
  });
  return problems;
}

// Libraries ------------------------------------------------------------------------------------------------------

function checkLibrary(source: string, given: ReadonlySet<string>): string[] {
  const header = parseHeader(source);
  const name = header.file === undefined ? "a library" : `library ${header.file}.lua`;
  const problems: string[] = [];
  if (header.file === undefined) problems.push(`the first line is not "-- name.lua - what it does"`);
  const tokens = tokenize(source);
  const own = new Set(declarations(tokens).map((declaration) => declaration.name));
  const needs = listed(header, "Needs");
  const defines = listed(header, "Defines");
  if (defines.length === 0) problems.push(`the header does not list what it defines`);
  for (const need of needs) {
    if (!given.has(need)) problems.push(`it needs ${need}, which no earlier source defines`);
    if (!tokens.some((token) => isText(token, need))) problems.push(`it does not use ${need}, which it needs`);
  }
  for (const defined of defines) if (!own.has(defined)) problems.push(`it does not define ${defined}`);
  for (const list of usesOfOperandLists(tokens)) problems.push(`it uses ${list}`);
  problems.push(...checkNames(tokens, new Set(needs)), ...checkCalls(tokens, []), ...checkFractions(tokens));
  return problems.map((problem) => `${name}: ${problem}`);
}

function listed(header: Header, word: string): string[] {
  const line = header.lines.find((text) => new RegExp(`^--\\s+${word}\\b`).test(text)) ?? "";
  return line.replace(/^--\s+\w+/, "").match(/\w+/g) ?? [];
}

// Commands -------------------------------------------------------------------------------------------------------

function checkCalls(tokens: readonly Token[], untrusted: readonly string[]): string[] {
  const { calls, hidden } = redisCalls(tokens);
  const problems = hidden > 0 ? ["it passes on redis or redis.call, which hides its commands from this check"] : [];
  const tainted = taintedNames(tokens, untrusted);
  for (const { args } of calls) {
    const [first, ...rest] = args;
    if (first?.length !== 1 || first[0]?.kind !== "string") {
      problems.push(`it runs a command whose name is not a literal string: redis.call(${show(first ?? [])}, ...)`);
      continue;
    }
    problems.push(...checkCommand(first[0].text, rest, tainted));
  }
  return problems;
}

function checkCommand(name: string, args: readonly (readonly Token[])[], tainted: ReadonlySet<string>): string[] {
  const command = commandOf62(name.toLowerCase());
  if (!command) return [`Redis 6.2 has no ${name} for scripts`];
  return [
    ...checkOptions(name, args, command.limits),
    ...keyArguments(args, command.keys)
      .filter((arg) => isBuilt(arg, tainted))
      .map((arg) => `${name} uses a key that is not one of KEYS: ${show(arg)}`),
  ];
}

function checkOptions(name: string, args: readonly (readonly Token[])[], limits: OptionLimits): string[] {
  const { max = Infinity, only, never = [] } = limits;
  const problems: string[] = [];
  if (args.length > max) problems.push(`${name} accepts ${max} arguments in Redis 6.2, not ${args.length}`);
  const words = args.map((arg) =>
    arg.length === 1 && arg[0]?.kind === "string" ? arg[0].text.toUpperCase() : undefined,
  );
  const strange = words.filter(
    (word, index) =>
      word !== undefined &&
      ((index > 0 && never.includes(word)) ||
        (only && index >= only.from && !isNumeric(word) && !only.words.includes(word))),
  );
  for (const word of strange) problems.push(`${name} has no option ${String(word)} in Redis 6.2`);
  if (name.toUpperCase() === "SET" && words.includes("NX") && words.includes("GET")) {
    problems.push("SET does not accept both NX and GET in Redis 6.2");
  }
  return problems;
}

const checkFractions = (tokens: readonly Token[]): string[] =>
  writtenFractions(tokens).map(
    (text) => `it writes a number that may have a fraction, such as 2.0 in Lua 5.4: ${text}`,
  );

const isNumeric = (text: string): boolean => text !== "" && !Number.isNaN(Number(text));

function keyArguments(args: readonly (readonly Token[])[], keys: KeyPositions | undefined): (readonly Token[])[] {
  if (!keys) return [];
  const to = keys.to < 0 ? args.length + keys.to : keys.to;
  return args.filter((_, index) => index >= keys.from && index <= to && (index - keys.from) % keys.step === 0);
}

/** Locals whose value is visibly not a key from KEYS. */
function taintedNames(tokens: readonly Token[], untrusted: readonly string[]): Set<string> {
  const tainted = new Set(untrusted);
  const all = declarations(tokens);
  // Each round passes the taint on by one assignment, wherever that stands.
  for (let size = -1; size !== tainted.size;) {
    size = tainted.size;
    for (const { name, value } of all) if (value && isBuilt(value, tainted)) tainted.add(name);
  }
  return tainted;
}

const HARMLESS_CALLS = ["unpack", "ipairs", "pairs"];

/** Whether an expression makes a new value, instead of choosing among given ones. */
function isBuilt(expression: readonly Token[], tainted: ReadonlySet<string>): boolean {
  if (expression.length === 1 && expression[0]?.kind === "string") return true;
  const open: ("index" | "unpack" | "other")[] = [];
  return expression.some((token, at) => {
    const before = expression[at - 1];
    if (isText(token, "[")) open.push("index");
    if (isText(token, "(", "{")) open.push(isText(before, "unpack") ? "unpack" : "other");
    if (isText(token, ")", "]", "}")) open.pop();
    // The places behind the list.
    if (isText(token, ",") && open.at(-1) === "unpack") open.splice(-1, 1, "index");
    // Which of several keys is picked may depend on anything.
    if (open.includes("index")) return false;
    if (isText(token, "..")) return true;
    if (isText(token, "(") && isIdentifier(before)) return !HARMLESS_CALLS.includes(before?.text ?? "");
    return isIdentifier(token) && !isText(before, ".", ":") && tainted.has(token.text);
  });
}

const show = (tokens: readonly Token[]): string =>
  tokens.map(({ kind, text }) => (kind === "string" ? `"${text}"` : text)).join(" ");
