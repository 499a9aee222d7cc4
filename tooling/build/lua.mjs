import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** The comments of a script that are read where it runs: its name, the types of its keys (their names are left out), the place of libraries. */
const keptComment = /^-- (?:[\w.-]+\.lua(?: - |$)|KEYS\[|Needs |Defines |Libraries$)/;

/** For each type of a key: a command that fails on another type, and one that writes but changes nothing, if no member is empty. */
const guards = {
  hash: { failOnOtherType: ["HLEN"] },
  zset: { failOnOtherType: ["ZCARD"], allowWrites: ["ZREM", "''"] },
  list: { failOnOtherType: ["LLEN"] },
  stream: { failOnOtherType: ["XLEN"] },
  string: { failOnOtherType: ["STRLEN"] },
};

/**
 * A script with its guards written out, by the types in its header. They stand before its first write:
 *
 * - `failOnOtherType(jobs, waiting)` ends the script if one of these keys has another type, so that no half of a change is left.
 * - `allowWrites(leases)` removes nothing. At maxmemory Redis allows writes in a script after one that can only free memory.
 */
export const withGuards = (lua) => {
  const types = new Map([...lua.matchAll(/^-- KEYS\[\w+\]\s+(\w+)\s+(\w+)/gm)].map(([, name, type]) => [name, type]));
  if (types.size === 0) return lua;
  return lua.replace(/\b(failOnOtherType|allowWrites)\((\w+(?:, \w+)*)\)/g, (_, guard, names) => {
    const calls = names.split(", ").map((name) => {
      const [command, ...rest] = guards[types.get(name)]?.[guard] ?? [];
      if (!command) throw new Error(`${guard}(${name}): the header gives ${name} no type that has this guard`);
      return `redis.call(${[`'${command}'`, name, ...rest].join(", ")})`;
    });
    return calls.join(" ");
  });
};

/**
 * The text of a Lua file without what only people read: comments and indentation. Of the first line the name is left, by which the
 * faults lab finds it, and of a library no other comment. One that other packages join keeps its header, for their contract tests.
 * Comments behind code are for `shortened`: `--` may stand in a string.
 */
export const withoutComments = (lua) => {
  const isExported = /^--.* Exported: /m.test(lua);
  const isOwnLibrary = isLibrary(lua) && !isExported;
  return withGuards(lua)
    .split("\n")
    .map((line) => (isOwnLibrary ? line.replace(/^(-- [\w.-]+\.lua) - .*|^--.*/, "$1").trim() : line.trim()))
    .filter((line) => line !== "" && (!line.startsWith("--") || keptComment.test(line)))
    .map((line) => (isExported ? line : line.replace(/^(-- [\w.-]+\.lua) - .*/, "$1")))
    .map((line) => line.replace(/^(-- KEYS\[\w+\])\s+(\S+)\s+(\w+).*/, "$1 - $3"))
    .join("\n");
};

const isLibrary = (lua) => /^-- Defines /m.test(lua);

/** The names that the libraries in these folders declare outside of their functions, so that other scripts may use them. */
export const namesOfLibraries = (folders) => {
  const libraries = folders
    .filter((folder) => existsSync(folder))
    .flatMap((folder) => readdirSync(folder, { recursive: true, encoding: "utf8" }).map((path) => join(folder, path)))
    .filter((path) => path.endsWith(".lua"))
    .map((path) => readFileSync(path, "utf8"))
    .filter(isLibrary);
  const declarations = libraries.flatMap((lua) => [...lua.matchAll(/^local (?:function )?(\w+(?:, \w+)*)/gm)]);
  return new Set(declarations.flatMap(([, names]) => names.split(", ")));
};

/** A comment, a text, a number, a field with its dot or colon, a word, or one character of anything else. */
const token = /--[^\n]*|"(?:\\[^]|[^"\\])*"|'(?:\\[^]|[^'\\])*'|\d[\w.]*|\.\.\.?|[.:]\s*[A-Za-z_]\w*|[A-Za-z_]\w*|[^]/g;
const isWord = (text) => /^[A-Za-z_]/.test(text);

/** The locals that hold the number of a layout. A test of two builds that share their data raises it in the built text. */
const layoutNames = ["layout", "found", "stored"];

/** A line that binds an operand. The faults lab finds it, and the names of operands, in the built package. */
const binding = /^local (\w+) = .*(?:KEYS|ARGV)/;

/**
 * A text of `withoutComments` with short names for its locals, and without blanks around signs. Lines stay lines, since errors of
 * scripts name them. A local name is the same in all scopes of the text, and so is its short one: what shadows what stays as it was.
 * `kept` are names that other texts define: these stay, and so do operands, and all that is no local, as globals, fields and keys of tables.
 */
export const shortened = (lua, kept) => {
  const all = lua.match(token) ?? [];
  const tokens = all.filter((text, at) => !text.startsWith("--") || at === 0 || all[at - 1] === "\n");
  const code = [...tokens.entries()].filter(([, text]) => !/^(?:\s|--)/.test(text));
  const names = localsOf(code.map(([, text]) => text));
  const operands = lua.split("\n").map((line) => binding.exec(line)?.[1]);
  for (const name of [...kept, ...operands, ...layoutNames, "_"]) names.delete(name);
  const keys = keysOfTables(code);
  const isRenamed = (text, place) => names.has(text) && !keys.has(place);

  const uses = new Map();
  for (const name of tokens.filter(isRenamed)) uses.set(name, (uses.get(name) ?? 0) + 1);
  const taken = new Set([...kept, ...tokens.filter((text, place) => isWord(text) && !isRenamed(text, place))]);
  const free = shortNames.filter((name) => !taken.has(name));
  const byUse = [...uses.keys()].sort((one, other) => uses.get(other) - uses.get(one));
  const short = new Map(byUse.map((name, rank) => [name, free[rank] ?? name]));
  return tokens
    .map((text, place) => (isRenamed(text, place) ? short.get(text) : text))
    .join("")
    .split("\n")
    .map((line) => (binding.test(line) || line.startsWith("--") ? line : withoutBlanks(line)))
    .join("\n");
};

/** One and two letters; the two-letter words of Lua and of its libraries are no names. */
const shortNames = (() => {
  const letters = "abcdefghijklmnopqrstuvwxyz".split("");
  const pairs = letters.flatMap((first) => letters.map((second) => first + second));
  return [...letters, ...pairs.filter((pair) => !["do", "if", "in", "io", "or", "os"].includes(pair))];
})();

/** All names that are declared: by `local`, as loop variables, as parameters. */
const localsOf = (words) => {
  const names = new Set();
  words.forEach((word, at) => {
    if (word === "function") {
      const open = words.indexOf("(", at);
      for (const text of words.slice(open + 1, words.indexOf(")", open))) if (isWord(text)) names.add(text);
    }
    if (word !== "local" && word !== "for") return;
    let last = words[at + 1] === "function" ? at + 2 : at + 1;
    names.add(words[last]);
    while (words[last + 1] === ",") names.add(words[(last += 2)]);
  });
  return names;
};

const openers = new Set(["{", "(", "[", "function", "if", "do", "repeat"]);
const closers = new Set(["}", ")", "]", "end", "until"]);

/** The places of names that are keys of tables: `{ name = … }`. */
const keysOfTables = (code) => {
  const places = new Set();
  const open = [];
  code.forEach(([place, text], at) => {
    if (closers.has(text)) open.pop();
    const [before, after, then] = [at - 1, at + 1, at + 2].map((near) => code[near]?.[1]);
    if (open.at(-1) === "{" && after === "=" && then !== "=" && ["{", ",", ";"].includes(before)) places.add(place);
    if (openers.has(text)) open.push(text);
  });
  return places;
};

const sign = "[=(){}\\[\\],+*/%<>~#]";
const texts = `"(?:\\\\[^]|[^"\\\\])*"|'(?:\\\\[^]|[^'\\\\])*'`;
const blanks = new RegExp(`(${texts})| +(?=${sign})|(?<=${sign}) +`, "g");

/** Blanks in texts stay, and those at `-` and `.`: they may keep two of these apart, or one from a number. */
const withoutBlanks = (line) => line.replace(blanks, (_, text = "") => text).trimEnd();
