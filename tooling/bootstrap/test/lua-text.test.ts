import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { runInNewContext } from "node:vm";
import { defineScript } from "@kit/core";
import * as leasing from "@kit/core/leasing";
import * as toolkit from "@kit/core/toolkit";
import { startRedis } from "@kit/testing";
import { describe, expect, it } from "vitest";
import { declarations, isIdentifier, isText, type Token, tokenize } from "../../../packages/testing/src/lua.js";
import { namesOfLibraries, shortened, withGuards, withoutComments } from "../../build/lua.mjs";
import { root } from "../repo.mjs";

const packages = join(root, "packages");
const folders = readdirSync(packages).map((name) => join(packages, name, "src"));
const files = [...folders, join(root, "apps/marketplace/src")]
  .flatMap((folder) => readdirSync(folder, { recursive: true, encoding: "utf8" }).map((path) => join(folder, path)))
  .filter((path) => path.endsWith(".lua"));
const kept = namesOfLibraries(folders);
const built = (lua: string, names: ReadonlySet<string> = kept): string => shortened(withoutComments(lua), names);

it("builds scripts without comments, except for their names and what core reads of the header", () => {
  const lua = `-- take.lua - takes a job, if there is one.
--
-- KEYS[1]  waiting  list    the jobs
-- ARGV[1]  count    integer how many
--
-- Reply  the jobs
local waiting = KEYS[1]

-- The rest needs the clock.
-- Libraries
  -- At most one.
local job = redis.call('RPOP', waiting) -- nil: none
return job == '--' and '-- x' or job`;
  expect(built(lua)).toBe(`-- take.lua
-- KEYS[1] - list
local waiting = KEYS[1]
-- Libraries
local a=redis.call('RPOP',waiting)
return a=='--' and '-- x' or a`);
});

describe("a guard of a script", () => {
  const header = "-- KEYS[1]  jobs   hash  a\n-- KEYS[2]  ready  zset  b\n-- KEYS[n]  rest   any   c\n";

  it("is written out by the types in the header", () => {
    const lua = `${header}failOnOtherType(jobs, ready)\n  allowWrites(ready)\nfailOnOtherType({ hash = jobs })`;
    expect(withGuards(lua)).toBe(`${header}redis.call('HLEN', jobs) redis.call('ZCARD', ready)
  redis.call('ZREM', ready, '')
failOnOtherType({ hash = jobs })`);
  });

  it("is refused for a key without a type, and where nothing of the type can be written", () => {
    const guarded = (line: string) => () => withGuards(header + line);
    expect(guarded("failOnOtherType(rest)")).toThrow("failOnOtherType(rest)");
    expect(guarded("failOnOtherType(other)")).toThrow("failOnOtherType(other)");
    expect(guarded("allowWrites(jobs)")).toThrow("allowWrites(jobs)");
  });
});

describe("the short names of a script", () => {
  const body = (lua: string, ...names: string[]): string => built(lua, new Set(names));

  it("follow the scopes: what shadows a name shadows the short one", () => {
    const lua = `local count = 1
local function add(count, more) return count + more end
for count = count, 2 do local count = count + 1 end
repeat local last = count until last > 2
return add(count, count)`;
    expect(body(lua)).toBe(`local a=1
local function b(a,c)return a+c end
for a=a,2 do local a=a+1 end
repeat local d=a until d>2
return b(a,a)`);
  });

  it("are not given to fields, keys of tables, texts and globals", () => {
    const lua = `local name, size = 'name', 1
local job = { name = name, size, of = function() name, size = 2, 3 return name end, [name] = size == 1 }
job.name = job.of(job.size) .. string.format("size %d", size)
return job:name()`;
    expect(body(lua)).toBe(`local a,b='name',1
local c={name=a,b,of=function()a,b=2,3 return a end,[a]=b==1}
c.name=c.of(c.size).. string.format("size %d",b)
return c:name()`);
  });

  it("leave out names that other scripts define, and those that stand free in the text", () => {
    expect(body("local grant = 1\nlocal first = a + b\nreturn grant + first + c", "grant")).toBe(
      "local grant=1\nlocal d=a+b\nreturn grant+d+c",
    );
  });

  it("keep blanks that keep signs apart", () => {
    expect(body("local one = 2\nreturn one - -one - - 1 .. 2 .. one .. ' =  ( '")).toBe(
      "local a=2\nreturn a - -a - - 1 .. 2 .. a .. ' =  ( '",
    );
  });
});

/** The places of variables: names that are no fields, no methods and no keys of tables. */
const variables = (tokens: readonly Token[]): ReadonlySet<number> => {
  const brackets: string[] = [];
  const places = tokens.map((token, place) => {
    // Also blocks: in a function of a table, `local a, b = …` has no keys.
    if (isText(token, "(", "[", "{", "function", "if", "do", "repeat")) brackets.push(token.text);
    if (isText(token, ")", "]", "}", "end", "until")) brackets.pop();
    const [before, after] = [tokens[place - 1], tokens[place + 1]];
    const isKey = brackets.at(-1) === "{" && isText(before, "{", ",", ";") && isText(after, "=");
    return isIdentifier(token) && !isText(before, ".", ":") && !isKey ? place : -1;
  });
  return new Set(places.filter((place) => place >= 0));
};

it("all scripts as built are the same programs as their sources", () => {
  const wrong = files.flatMap((path) => {
    const lua = readFileSync(path, "utf8");
    const [source, short] = [withGuards(lua), built(lua)].map(tokenize) as [Token[], Token[]];
    const declared = new Set(declarations(source).map(({ name }) => name));
    const renamed = new Map<string, string>();
    const problems: string[] = [];
    if (source.length !== short.length) problems.push("another number of tokens");
    const places = variables(source);
    for (const place of places) {
      const [name = "", text = ""] = [source[place]?.text, short[place]?.text];
      if (text !== name && (!declared.has(name) || kept.has(name))) problems.push(`${name} is not the script's own`);
      if (text !== name && (kept.has(text) || !/^[a-z]{1,2}$/.test(text))) problems.push(`${text} is no short name`);
      if ((renamed.get(name) ?? text) !== text) problems.push(`${name} has two names`);
      renamed.set(name, text);
    }
    if (new Set(renamed.values()).size < renamed.size) problems.push("two names became one");
    source.forEach(({ kind, text }, place) => {
      if (!places.has(place) && (short[place]?.kind !== kind || short[place]?.text !== text))
        problems.push(`line ${String(source[place]?.line)} has lost "${text}"`);
    });
    return problems.map((problem) => `${path}: ${problem}`);
  });
  expect(wrong).toEqual([]);
  expect(files.length).toBeGreaterThan(100);
});

/** All scripts in a built file: the texts that `source` of a definition names. */
const scriptsIn = (code: string): string[] => {
  const imported: Record<string, unknown> = { ...toolkit, ...leasing };
  const texts = new Map(
    [...code.matchAll(/^var ([\w$]+) = ("-- (?:[^"\\\n]|\\.)*"|`-- (?:[^`\\]|\\.)*`);$/gm)].map(
      ([, name = "", literal = ""]) => [name, runInNewContext(literal) as string],
    ),
  );
  const lists = new Map(
    [...code.matchAll(/^var ([\w$]+) = \[([^\]]*)\];$/gm)].map(([, name = "", list = ""]) => [name, list] as const),
  );
  const namesIn = (list: string): readonly string[] =>
    (list.match(/[\w$.]+/g) ?? []).flatMap((name) =>
      name.startsWith("...") ? namesIn(lists.get(name.slice(3)) ?? "") : [name],
    );
  // The scripts of a queue exist with each library in place of the parameter `groups`.
  const given = [...code.matchAll(/ = scriptsWith\(([\w$]+)\);$/gm)].map(([, name = ""]) => name);
  return [...code.matchAll(/^\s+source: (?:([\w$]+)|\[([^\]]*)\]),$/gm)].flatMap(([, one = "", several = one]) => {
    const names = namesIn(several);
    const choices = names.includes("groups")
      ? given.map((library) => names.map((name) => (name === "groups" ? library : name)))
      : [names];
    return choices.map((list) => {
      const source = list.map((name) => texts.get(name) ?? String(imported[name]));
      return defineScript({ name: "built", source, keys: [], args: [], reply: String }).source;
    });
  });
};

it("a server loads every script as built", async () => {
  await using server = await startRedis();
  const failed: string[] = [];
  let loaded = 0;
  for (const name of readdirSync(packages)) {
    const dist = join(packages, name, "dist");
    for (const file of readdirSync(dist).filter((path) => path.endsWith(".js"))) {
      for (const text of scriptsIn(readFileSync(join(dist, file), "utf8"))) {
        await server.call("SCRIPT", "LOAD", text).then(
          () => (loaded += 1),
          (error: unknown) => failed.push(`${name}/${file}: ${String(error)} in ${text.slice(0, 40)}`),
        );
      }
    }
  }
  expect(failed).toEqual([]);
  expect(loaded).toBeGreaterThan(100);
});
