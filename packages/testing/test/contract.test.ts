import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { contract, startRedis, type RedisServer, type ScriptContract } from "../src/index.js";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(async () => {
  await server.stop();
});

const HEADER = `-- extend.lua - push the lease forward, but only for the holder that owns it.
--
-- KEYS[1]  lease    string   the lock; its value is the holder's token
-- ARGV[1]  token    string   token given out by acquire
-- ARGV[2]  leaseMs  integer  new time to live, milliseconds
--
-- Reply     1  extended
--           0  not held by this token: expired, or taken over
`;
const BINDINGS = `local lease = KEYS[1]
local token = ARGV[1]
local leaseMs = tonumber(ARGV[2]) -- milliseconds
`;
const BODY = `
if redis.call("GET", lease) ~= token then return 0 end
return redis.call("PEXPIRE", lease, leaseMs)
`;
const extend: ScriptContract = {
  name: "lock.extend",
  source: HEADER + BINDINGS + BODY,
  keys: ["lease"],
  args: ["token", "leaseMs"],
};

const problemsOf = (changes: Partial<ScriptContract>) => contract([{ ...extend, ...changes }], server);

/** The problems of the script with another body (or other lines in it). */
const ofBody = (body: string) =>
  problemsOf({ source: `${HEADER}${BINDINGS}${body}\nreturn { token, leaseMs, lease }` });

describe("contract", () => {
  it("finds nothing wrong with a script that keeps it", async () => {
    expect(await contract([extend], server)).toEqual([]);
  });

  it("accepts any client as the server", async () => {
    expect(await contract([extend], server.nodes[0]!)).toEqual([]);
    expect(await contract([extend], server.client())).toEqual([]);
  });

  it("names the script of each problem", async () => {
    const two = [extend, { ...extend, name: "lock.push" }];
    expect(await contract(two, server)).toEqual(["lock.push: the header calls it extend.lua, the script push"]);
  });

  it.each([
    ["no file line", HEADER.replace("extend.lua - ", ""), `the first line is not "-- extend.lua - what it does"`],
    [
      "no meaning of an operand",
      HEADER.replace("token given out by acquire", ""),
      "1 operand line(s) of the header lack",
    ],
    [
      "another name",
      HEADER.replace("token    string", "owner    string"),
      "ARGV of the header are (owner, leaseMs), of the spec (token, leaseMs)",
    ],
    ["another number", HEADER.replace("ARGV[2]", "ARGV[3]"), "the header gives leaseMs as ARGV[3], not ARGV[2]"],
    [
      "no key type",
      HEADER.replace("lease    string ", "lease    text   "),
      `the header gives key lease the unknown type "text"`,
    ],
    ["no reply", HEADER.replace(/-- Reply[^]*/, ""), "the header does not describe the reply"],
    ["an empty reply", HEADER.replace(/-- Reply[^]*/, "-- Reply\n"), "the header does not describe the reply"],
    ["ARGV first", HEADER.replace(/(-- KEYS.*\n)([^]*)(--\n-- Reply)/, "$2$1$3"), "the header lists ARGV before KEYS"],
  ])("finds a header with %s", async (_, header, problem) => {
    expect(await problemsOf({ source: header + BINDINGS + BODY })).toContainEqual(
      expect.stringContaining(`lock.extend: ${problem}`),
    );
  });

  it.each([
    [
      "is missing",
      BINDINGS.replace(/local leaseMs.*\n/, "local leaseMs = 1\n"),
      "operand leaseMs is not bound at the top of the body",
    ],
    [
      "has another name",
      BINDINGS.replace("local token", "local owner"),
      `expected the binding of token, got "local owner = ARGV[1]"`,
    ],
    [
      "has another position",
      BINDINGS.replace("ARGV[2]", "ARGV[1]"),
      `expected the binding of leaseMs, got "local leaseMs = tonumber(ARGV[1])"`,
    ],
    ["is out of order", BINDINGS.split("\n").reverse().join("\n").trim() + "\n", "expected the binding of lease, got"],
    ["changes a key", BINDINGS.replace("KEYS[1]", `KEYS[1] .. ":x"`), "expected the binding of lease, got"],
    [
      "is one too many",
      `${BINDINGS}local extra = ARGV[3]\n`,
      `"local extra = ARGV[3]" binds an operand that is not in the spec`,
    ],
  ])("finds a binding that %s", async (_, bindings, problem) => {
    expect(await problemsOf({ source: HEADER + bindings + BODY })).toContainEqual(expect.stringContaining(problem));
  });

  it("finds KEYS and ARGV outside the bindings, but not in texts and comments", async () => {
    expect(await ofBody(`redis.call("TIME")\nlocal a = redis.call("GET", KEYS[1])`)).toContainEqual(
      "lock.extend: it uses KEYS outside the bindings",
    );
    expect(await ofBody(`if #ARGV > 2 then return 0 end`)).toEqual(["lock.extend: it uses ARGV outside the bindings"]);
    expect(await ofBody(`local a = "KEYS[1]" -- ARGV[1]\n--[[ KEYS\nKEYS ]] local b = [[ARGV]]`)).toEqual([]);
  });

  it("finds an operand that is not used", async () => {
    const body = `return redis.call("PEXPIRE", lease, leaseMs) -- token`;
    expect(await problemsOf({ source: HEADER + BINDINGS + body })).toEqual(["lock.extend: operand token is not used"]);
  });

  it("finds a shebang", async () => {
    expect(await problemsOf({ source: `#!lua\n${HEADER}${BINDINGS}${BODY}` })).toContainEqual(
      "lock.extend: it starts with #!, which requires Redis 7",
    );
  });

  it("finds what the server does not load", async () => {
    const [problem, ...others] = await ofBody("if then");
    expect(others).toEqual([]);
    expect(problem).toMatch(/^lock\.extend: the server does not load it: ERR Error compiling script/);
  });

  it.each([
    ["count = 1", "it writes the global count"],
    ["function helper() end", "it writes the global helper"],
    ["local a = undefinedName", "it reads the global undefinedName"],
    ["local a = os.time()", "it reads the global os"],
    [`local a = redis.acl_check_cmd("GET", lease)`, "it uses redis.acl_check_cmd, which Redis 6.2 does not have"],
  ])("finds the globals of %s", async (line, problem) => {
    expect(await ofBody(line)).toEqual([`lock.extend: ${problem}`]);
  });

  it("knows locals, parameters, loop variables, fields and methods for what they are", async () => {
    const body = `
local function pick(a, b) return a or b end
local t = { name = 1, ["other"] = 2, pick }
t.field = pick(t.name, #token)
t["x"], t.y = 1, 2
local plain
plain = token:sub(1, 2)
for i, each in ipairs({ 1 }) do t[i] = each end
for n = 1, 2 do t[n] = function(inner) return inner end end`;
    expect(await ofBody(body)).toEqual([]);
  });

  it.each([
    [`redis.call("LMPOP", 1, lease, "LEFT")`, "Redis 6.2 has no LMPOP for scripts"],
    [`redis.call("CONFIG", "GET", "*")`, "Redis 6.2 has no CONFIG for scripts"],
    [`redis.pcall("PEXPIRE", lease, leaseMs, "GT")`, "PEXPIRE accepts 2 arguments in Redis 6.2, not 3"],
    [`redis.call("SET", lease, token, "IFEQ", token)`, "SET has no option IFEQ in Redis 6.2"],
    [`redis.call("set", lease, token, "nx", "get")`, "SET does not accept both NX and GET in Redis 6.2"],
    [`redis.call("ZRANK", lease, token, "WITHSCORE")`, "ZRANK accepts 2 arguments in Redis 6.2, not 3"],
    [`redis.call("HSCAN", lease, 0, "NOVALUES")`, "HSCAN has no option NOVALUES in Redis 6.2"],
    [`redis.call("XADD", lease, "KEEPREF", "*", "a", "b")`, "XADD has no option KEEPREF in Redis 6.2"],
    [`redis.call("BITOP", "DIFF", lease, lease)`, "BITOP has no option DIFF in Redis 6.2"],
  ])("finds what is newer than Redis 6.2 in %s", async (line, problem) => {
    expect(await ofBody(line)).toEqual([`lock.extend: ${problem}`]);
  });

  it("takes the options that Redis 6.2 had", async () => {
    const body = `
redis.call("SET", lease, "LOCKED", "PX", leaseMs, "NX")
redis.call("ZADD", lease, "GT", "CH", "1", "LATER")
redis.call("ZRANGE", lease, "-inf", "(5", "BYSCORE", "LIMIT", "0", "1")
redis.call("XADD", lease, "NOMKSTREAM", "MAXLEN", "~", 10, "*", "ACKNOWLEDGED", token)
redis.call("HSET", lease, "GT", "IFEQ")
redis.call("GETEX", lease, "PERSIST")
redis.call("TIME")`;
    expect(await ofBody(body)).toEqual([]);
  });

  it.each([
    [`redis.call("SET", lease, leaseMs / 2)`, "leaseMs / 2"],
    [`redis.call("SET", lease, leaseMs * 1e3)`, "leaseMs * 1e3"],
    [`redis.call("SET", lease, token .. leaseMs / 2 .. "x")`, "leaseMs / 2"],
    [`redis.call("SET", lease, (leaseMs + 1) ^ 2 .. token)`, "( leaseMs + 1 ) ^ 2"],
    [`local part = math.max(1, leaseMs / 2)\nredis.call("SET", lease, part)`, "part"],
    [`local whole, part = 2, leaseMs / 2\nredis.call("SET", lease, whole .. ":" .. part)`, "part"],
    [`local part\npart = leaseMs / 2\nlocal more = part + 1\nredis.call("SET", lease, tostring(more))`, "more"],
    [`local part = token and math.sqrt(leaseMs) or 0\nredis.call("SET", lease, "x" .. part)`, "part"],
  ])("finds a number that Lua 5.4 would write with a fraction: %s", async (body, shown) => {
    expect(await ofBody(body)).toEqual([
      `lock.extend: it writes a number that may have a fraction, such as 2.0 in Lua 5.4: ${shown}`,
    ]);
  });

  it.each([
    `redis.call("SET", lease, math.floor(leaseMs / 2) .. token)`,
    `redis.call("SET", lease, string.format("%.17g", leaseMs / 2))`,
    `redis.call("SET", lease, leaseMs / 2 > 3 and 1 or 2)`,
    `local part = leaseMs / 2\nredis.call("SET", lease, ({ token })[part] .. #token)`,
    `local part = leaseMs / 2\nlocal is = part > 1 and "a" or "b"\nredis.call("SET", lease, is .. token)`,
    `for i = 1, leaseMs / 2 do redis.call("SET", lease, "x" .. i) end`,
    `local half = leaseMs / 2\nlocal list = { half = "x" }\nredis.call("SET", lease, list.half .. "/")\nlist.half = half`,
    `local part = leaseMs / 2\nlocal other = token\nother = other .. "x"\npart = part + 1`,
  ])("accepts a number that both write alike: %s", async (body) => {
    expect(await ofBody(body)).toEqual([]);
  });

  it("finds commands that nobody can see", async () => {
    expect(await ofBody(`local cmd = "GET"\nredis.call(cmd, lease)`)).toEqual([
      "lock.extend: it runs a command whose name is not a literal string: redis.call(cmd, ...)",
    ]);
    const passedOn = ["lock.extend: it passes on redis or redis.call, which hides its commands from this check"];
    expect(await ofBody("local run = redis.call")).toEqual(passedOn);
    expect(await ofBody("local r = redis")).toEqual(passedOn);
  });

  it.each([
    [`redis.call("GET", lease .. ":meta")`, `lease .. ":meta"`],
    [`redis.call("GET", "fixed")`, `"fixed"`],
    [`redis.call("GET", token)`, "token"],
    [`redis.call("GET", string.format("%s", lease))`, `string . format ( "%s" , lease )`],
    [`redis.call("RENAME", lease, lease .. ":2")`, `lease .. ":2"`],
    [`redis.call("DEL", lease, token)`, "token"],
    [`local meta = lease .. ":meta"\nredis.call("GET", meta)`, "meta"],
    [`local meta = lease\n  .. ":meta"\nlocal same = meta\nredis.call("GET", same)`, "same"],
    [`local id = redis.call("LPOP", lease)\nredis.call("DEL", id)`, "id"],
    [`for _, id in ipairs(redis.call("SMEMBERS", lease)) do redis.call("DEL", id) end`, "id"],
  ])("finds the key built in %s", async (line, shown) => {
    const command = /redis\.call\("(\w+)"[^]*$/.exec(line.split("\n").at(-1)!.split(" do ").at(-1)!)?.[1];
    expect(await ofBody(line)).toContainEqual(`lock.extend: ${command} uses a key that is not one of KEYS: ${shown}`);
  });

  it("lets a script pick among its keys, pass them to functions and build values", async () => {
    const body = `
local function read(key) return redis.call("GET", key) end
local chosen = lease
redis.call("SET", chosen, token .. ":" .. leaseMs)
redis.call("PUBLISH", token .. ":channel", read(lease))`;
    expect(await ofBody(body)).toEqual([]);
  });

  it("finds an argument of several values whose parts the header does not list", async () => {
    const source =
      HEADER.replaceAll("token ", "terms ").replace("out by", "by `holder op`") +
      BINDINGS.replaceAll("token", "terms") +
      BODY.replaceAll("token", "terms");
    const args = (parts: string) => [`terms: ${parts}`, "leaseMs"];
    expect(await problemsOf({ source, args: args("holder op") })).toEqual([]);
    expect(await problemsOf({ source, args: args("op holder") })).toEqual([
      "lock.extend: the header does not describe terms as `op holder`",
    ]);
  });

  describe("with rest operands", () => {
    const header = `-- free.lua - drop many leases.
-- KEYS[1]  index   zset    who holds what
-- KEYS[n]  leases  string  one for each token, in the same order
-- ARGV[n]  tokens  string  what each lease must hold
-- Reply    number of leases dropped
`;
    const body = `for i, token in ipairs(tokens) do
  if redis.call("GET", leases[i]) == token then redis.call("DEL", leases[i]) end
  redis.call("ZREM", index, token)
end
redis.call("UNLINK", unpack(leases))
return #leases`;
    const free = (bindings: string): ScriptContract => ({
      name: "free",
      source: header + bindings + body,
      keys: ["index", "...leases"],
      args: ["...tokens"],
    });

    it("accepts the list itself and a slice of it", async () => {
      const slice = "local index = KEYS[1]\nlocal leases = { unpack(KEYS, 2) }\nlocal tokens = ARGV\n";
      const list = "local index = KEYS[1]\nlocal leases = KEYS\nlocal tokens = ARGV\n";
      expect(await contract([free(slice), free(list)], server)).toEqual([]);
    });

    it("finds a slice from another position, and a rest that the header numbers", async () => {
      const wrong = "local index = KEYS[1]\nlocal leases = { unpack(KEYS, 3) }\nlocal tokens = ARGV\n";
      expect(await contract([free(wrong)], server)).toEqual([
        `free: expected the binding of leases, got "local leases = { unpack(KEYS, 3) }"`,
      ]);
      const fine = free("local index = KEYS[1]\nlocal leases = KEYS\nlocal tokens = ARGV\n");
      const numbered = { ...fine, source: String(fine.source).replace("KEYS[n]", "KEYS[2]") };
      expect(await contract([numbered], server)).toEqual(["free: the header gives leases as KEYS[2], not KEYS[n]"]);
    });
  });

  describe("with rows of several arguments", () => {
    const move = (body: string): ScriptContract => ({
      name: "move",
      source: `-- move.lua - set several strings.
-- KEYS[n]  keys  string  \`from to\`: two for each row
-- ARGV[n]  rows  string  \`id text ms\`
-- Reply    what was there
local keys = KEYS
local rows = ARGV
${body}
`,
      keys: ["...keys[from to]"],
      args: ["...rows[id text ms]"],
    });
    const read = "local id, text, ms = unpack(rows, at, at + 2)";
    const write = `redis.call("SET", to, redis.call("GET", from) .. id .. text, "PX", ms)`;
    const loop = (...lines: readonly string[]) =>
      `local key = 1\nfor at = 1, #rows, 3 do\n${lines.join("\n")}\nkey = key + 2\nend`;
    const keys = "local from, to = unpack(keys, key, key + 1)";

    it("accepts rows that are read by the names of their parts, some of them in another place", async () => {
      const apart = loop(
        keys,
        "local id, _, ms = unpack(rows, at, at + 2)",
        "local _, text = unpack(rows, at, at + 1)",
        write,
      );
      const first = `local id, text = unpack(rows, 1, 2)\nif id == text then return 0 end\n${loop(keys, read, write)}`;
      expect(await contract([move(loop(keys, read, write)), move(apart), move(first)], server)).toEqual([]);
    });

    it.each([
      ["another order", loop(keys, "local text, id, ms = unpack(rows, at, at + 2)", write)],
      ["too few arguments for the names", loop(keys, "local id, text, ms = unpack(rows, at, at + 1)", write)],
      ["a part by its position", loop(keys, read, write, "redis.call('SET', to, rows[at + 1])")],
      ["another step", loop(keys, read, write).replace("#rows, 3", "#rows, 2")],
      ["a walk over single arguments", `${loop(keys, read, write)}\nfor _, one in ipairs(rows) do key = one end`],
    ])("finds %s", async (_, body) => {
      expect(await contract([move(body)], server)).toEqual([
        `move: it must read rows of rows in steps of 3 and with "${read}"`,
      ]);
    });

    it("finds parts that are never read, and those that the header does not list", async () => {
      const some = loop(
        "local _, to = unpack(keys, key, key + 1)",
        read,
        `redis.call("SET", to, id .. text, "PX", ms)`,
      );
      expect(await contract([move(some)], server)).toEqual(["move: it does not read from of the rows of keys"]);
      const whole = move(loop(keys, read, write));
      const unsaid = { ...whole, source: String(whole.source).replace("`id text ms`", "three for each row") };
      expect(await contract([unsaid], server)).toEqual(["move: the header does not describe rows as `id text ms`"]);
    });
  });

  describe("with records of several kinds", () => {
    const records = { order: ["id", "items"], item: ["sku", "count"] };
    const pack = (body: string, header = "`id items`, then for each item `sku count`"): ScriptContract[] => [
      {
        name: "pack",
        source: [
          "-- reader.lua - read an order.\n-- Defines orderAt\n" +
            "local function orderAt(plan, at)\nlocal id, items = unpack(plan, at, at + 1)\nreturn id, items\nend",
          `-- pack.lua - set counts.
-- KEYS[1]  hash  hash    counts
-- ARGV[n]  plan  string  ${header}
-- Reply    nothing
local hash = KEYS[1]
local plan = ARGV
local id, items = orderAt(plan, 1)
${body}
return { id }
`,
        ],
        keys: ["hash"],
        args: ["...plan"],
        records,
      },
    ];
    const read = "local sku, count = unpack(plan, at, at + 1)";
    const loop = (line: string, write = "redis.call('HSET', hash, sku, count)"): string =>
      `for at = 3, 1 + 2 * items, 2 do\n${line}\n${write}\nend`;

    it("accepts records that are read by the names of one kind, in a library as well", async () => {
      expect(await contract(pack(loop(read)), server)).toEqual([]);
    });

    it.each([
      ["another order", loop("local count, sku = unpack(plan, at, at + 1)")],
      ["names of two kinds", loop("local id, count = unpack(plan, at, at + 1)\nlocal sku = id")],
      ["a field by its position", loop(read, "redis.call('HSET', hash, sku, plan[at + 1], count)")],
      ["a walk over all", `${loop(read)}\nfor _, one in ipairs(plan) do hash = one end`],
    ])("finds %s", async (_, body) => {
      expect(await contract(pack(body), server)).toContainEqual(
        expect.stringMatching(/^pack: line \d+: it must read plan by the names of one record$/),
      );
    });

    it("finds fields that are never read, and records that no header lists", async () => {
      const part = loop("local sku = unpack(plan, at, at)", "redis.call('HSET', hash, sku, 1)");
      expect(await contract(pack(part), server)).toEqual(["pack: it does not read count of the records of plan"]);
      expect(await contract(pack(loop(read), "`id items`, then items"), server)).toEqual([
        "pack: no header describes the record item as `sku count`",
      ]);
    });
  });

  it("takes a module, and finds the scripts in it", async () => {
    const bad = { ...extend, name: "lock.push" };
    const module = { extend, limit: 3, nothing: undefined, helper: () => 1, channel: { script: bad, max: 1 } };
    expect(await contract(module, server)).toEqual(["lock.push: the header calls it extend.lua, the script push"]);
    expect(await contract({ limit: 3 }, server)).toEqual(["found no scripts"]);
  });

  it("judges the texts one by one where it has both them and the whole", async () => {
    const library = "-- one.lua - one.\n-- Defines one\nlocal one = 1\n";
    const sources = [library, HEADER + BINDINGS + BODY.replace("return 0", "return one")];
    expect(await contract([{ ...extend, source: sources.join("\n"), sources }], server)).toEqual([]);
  });

  describe("with libraries", () => {
    const clock = `-- clock.lua - the server's time.
--
-- Defines nowMs
local function nowMs()
  local time = redis.call("TIME")
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
`;
    const due = `-- due.lua - whether an instant has come.
-- Needs nowMs
-- Defines isDue
local function isDue(at) return at <= nowMs() end
`;
    const body = `if isDue(leaseMs) then return { lease, token } end\nreturn 0`;
    const withSources = (...libraries: string[]) => problemsOf({ source: [...libraries, HEADER + BINDINGS + body] });

    it("accepts libraries in an order that gives each what it needs", async () => {
      expect(await withSources(clock, due)).toEqual([]);
    });

    it("finds a library before what it needs, and a script without its library", async () => {
      expect(await withSources(due, clock)).toEqual([
        "lock.extend: library due.lua: it needs nowMs, which no earlier source defines",
      ]);
      expect(await withSources(clock)).toEqual(["lock.extend: it reads the global isDue"]);
    });

    it.each([
      [
        "no first line",
        clock.replace("clock.lua - ", ""),
        `a library: the first line is not "-- name.lua - what it does"`,
      ],
      [
        "no Defines",
        clock.replace("-- Defines nowMs\n", ""),
        "library clock.lua: the header does not list what it defines",
      ],
      [
        "a false Defines",
        clock.replace("Defines nowMs", "Defines nowMs, later"),
        "library clock.lua: it does not define later",
      ],
      ["an idle Needs", due.replace("nowMs()", "1"), "library due.lua: it does not use nowMs, which it needs"],
      ["a hidden need", due.replace("-- Needs nowMs\n", ""), "library due.lua: it reads the global nowMs"],
      ["KEYS", due.replace("at <=", "#KEYS <="), "library due.lua: it uses KEYS"],
      [
        "a newer command",
        clock.replace(`"TIME"`, `"EXPIRETIME", "k"`),
        "library clock.lua: Redis 6.2 has no EXPIRETIME for scripts",
      ],
    ])("finds a library with %s", async (_, library, problem) => {
      const libraries = library.includes("due.lua") || library.includes("isDue") ? [clock, library] : [library, due];
      expect(await withSources(...libraries)).toContainEqual(`lock.extend: ${problem}`);
    });
  });
});
