import { inspect } from "node:util";
import { connect, KitError, type RedisLike } from "@kit/core";
import { createLock } from "@kit/lock";
import { createSemaphore, type Semaphore, type SemaphoreOptions } from "@kit/semaphore";
import { type RedisServer, startRedis } from "@kit/testing";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";

// A call on foreign data in Redis, or with invalid input, either succeeds, or rejects with a typed error and changes nothing.

type Calls = Readonly<Record<string, () => Promise<unknown>>>;
type Spoil = (server: RedisServer, key: string) => Promise<unknown>;

/** A package whose keys can be spoilt. */
interface Subject {
  readonly keyOf: (name: string, part: string) => string;
  /** Values of the right type that no kit package wrote, by the key that holds them. */
  readonly garbage: Readonly<Record<string, Readonly<Record<string, Spoil>>>>;
  /** A key as a newer version would write it, and the calls that do not read it. */
  readonly newer: { readonly part: string; readonly write: Spoil; readonly untouched: readonly string[] };
  /**
   * Error codes that are valid outcomes, since by the spoilt data another holder has the name. Such a call may leave
   * waiter data that expires.
   */
  readonly answers: readonly string[];
  readonly open: (client: RedisLike) => {
    /** Every call of the API about a lease of this name, which is held. Waiting calls have a short `waitMs`. */
    readonly callsOf: (name: string) => Promise<Calls>;
    /** Calls with values out of bounds. */
    readonly refused: () => Calls;
    /** Holds the lease of an unusual name, and releases it. Resolves with what is wrong. */
    readonly useOf: (name: string) => Promise<string | false>;
    readonly close: () => Promise<unknown>;
  };
}

const setTo =
  (value: string): Spoil =>
  (server, key) =>
    server.call("SET", key, value);

/** A value of every type. One of them is the right type with foreign values. */
const otherTypes: Readonly<Record<string, Spoil>> = {
  "a string": setTo("x"),
  "a list": (server, key) => server.call("RPUSH", key, "x"),
  "a set": (server, key) => server.call("SADD", key, "x"),
  "a hash": (server, key) => server.call("HSET", key, "field", "x"),
  "a sorted set": (server, key) => server.call("ZADD", key, "1.5", "x"),
  "a stream": (server, key) => server.call("XADD", key, "*", "field", "x"),
};

const spoiltWaiters: Readonly<Record<string, Spoil>> = {
  "a counter that is no number": (server, key) => server.call("HSET", key, "#", "x"),
  "malformed records": (server, key) => server.call("HSET", key, "a", "", "b", "1", "c", "x y z"),
};

const hugeName = "n".repeat(513);
const huge = "x".repeat(64_000_000);

/** Names that cannot be a key. */
const refusedNames: Readonly<Record<string, string>> = {
  "a name of 513 bytes": hugeName,
  "a name of 513 bytes in UTF-8": "\u00e9".repeat(257),
  "a name of 10 MB": "n".repeat(10_000_000),
  "an empty name": "",
  "half a surrogate pair": "\ud800",
};

/** Unusual names that are valid. */
const oddNames = ["n".repeat(512), "{", "}", "a{b}c", ":", "\u0000", "\n", "*", "__proto__", "\u{1f512}", "%7B"];

/** Texts that no serialised lease can have. */
const refusedTexts: Readonly<Record<string, string>> = {
  "text of 10^5 levels": `${"[".repeat(1e5)}${"]".repeat(1e5)}`,
  "text of 64 MB": huge,
  "text with a huge name": JSON.stringify({ name: hugeName }),
};

const each = (texts: Readonly<Record<string, string>>, call: (text: string) => Promise<unknown>): Calls =>
  Object.fromEntries(Object.entries(texts).map(([what, text]) => [what, () => call(text)]));

const options = { leaseMs: 60_000, deadlineMs: 1_000 };

const lock: Subject = {
  keyOf: (name, part) => `kit:lock:{${name}}:${part}`,
  garbage: {
    lease: {
      empty: setTo(""),
      "no bar": setTo("nobody"),
      "bars only": setTo("|||"),
      "not text": setTo("\u0000\u0001|\uffff"),
    },
    fence: {
      empty: setTo(""),
      "no number": setTo("1:x"),
      "no layout": setTo("x:1"),
      huge: setTo(`1:${"9".repeat(30)}`),
      bars: setTo("1:::"),
    },
    queue: { "no waiter behind it": (server, key) => server.call("ZADD", key, "-1", "nobody", "inf", "nobody-else") },
    waiters: spoiltWaiters,
  },
  // Calls on an own lease do not read the fence.
  newer: { part: "fence", write: setTo("2:1:what-ever:comes"), untouched: ["extend", "resume", "release"] },
  answers: ["KIT_LOCK_TIMEOUT"],
  open: (client) => {
    const own = createLock(client, options);
    return {
      callsOf: async (name) => {
        const lease = await own.acquire(name, { renew: false });
        const text = lease.serialise();
        return {
          tryAcquire: () => own.tryAcquire(name, { renew: false }),
          acquireAll: () => own.acquireAll([name, `${name}-2`], { waitMs: 30, renew: false }),
          tryAcquireAll: () => own.tryAcquireAll([name, `${name}-2`], { renew: false }),
          acquire: () => own.acquire(name, { waitMs: 30, renew: false }),
          using: () => own.using(name, () => undefined, { waitMs: 30, renew: false }),
          inspect: () => own.inspect(name),
          forceRelease: () => own.forceRelease(name),
          extend: () => lease.extend(),
          release: () => lease.release(),
          resume: () => own.resume(text),
        };
      },
      refused: () => ({
        ...each(refusedNames, (name) => own.acquire(name)),
        ...each(refusedTexts, (text) => own.resume(text)),
        "a huge name to try": () => own.tryAcquire(hugeName),
        "a huge name among several": () => own.acquireAll(["x", hugeName]),
        "a huge name among several to try": () => own.tryAcquireAll(["x", hugeName]),
        "a huge name among several to use": () => own.usingAll(["x", hugeName], () => undefined),
        "no names": () => own.acquireAll([]),
        "a million names": () => own.acquireAll(Array.from({ length: 1_000_000 }, (_, index) => String(index))),
        "a huge name to inspect": () => own.inspect(hugeName),
        "a huge name to take": () => own.forceRelease(hugeName),
        "a huge name to use": () => own.using(hugeName, () => undefined),
        "a holder of 129 characters": () => own.acquire("x", { holder: "h".repeat(129) }),
        "a holder of 64 MB": () => own.acquire("x", { holder: huge }),
        "a lease of 0 ms": () => own.acquire("x", { leaseMs: 0 }),
        "a lease of two days": () => own.acquire("x", { leaseMs: 172_800_000 }),
        "a lease of no number": () => own.acquire("x", { leaseMs: Number.NaN }),
        "a negative wait": () => own.acquire("x", { waitMs: -1 }),
      }),
      useOf: async (name) => {
        const lease = await own.acquire(name, { waitMs: 0 });
        const isFree = (await own.tryAcquire(name)) !== null;
        await lease.release();
        return isFree && "held twice";
      },
      close: () => own.close({ timeoutMs: 0 }),
    };
  },
};

const tenant = "one";

const semaphore: Subject = {
  keyOf: (name, part) => `kit:semaphore:{${name}}:${part}`,
  garbage: {
    permits: {
      "malformed permit records": (server, key) => server.call("ZADD", key, "9999999999999", "nobody", "inf", "|||"),
      "an invalid weight": (server, key) => server.call("ZADD", key, "9999999999999", "a|x||b", "0", "c|-1||d"),
    },
    meta: {
      "invalid limits": (server, key) =>
        server.call("HSET", key, "layout", "1", "permits", "x", "perTenant", "y", "extra", "z"),
      "no limits": (server, key) => server.call("HSET", key, "layout", "1"),
      "counts that are no numbers": (server, key) =>
        server.call("HSET", key, "layout", "1", "permits", "2", "perTenant", "2", `u:${tenant}`, "x"),
    },
    queue: { "malformed rows": (server, key) => server.call("ZADD", key, "0", "x y z", "0", "|", "0", " ") },
    ready: { "tenants without a waiter": (server, key) => server.call("ZADD", key, "-1", "nobody", "inf", tenant) },
    waiters: spoiltWaiters,
  },
  // They touch only their own permit while the queue is empty, so they do not read `meta`.
  newer: {
    part: "meta",
    write: (server, key) => server.call("HSET", key, "layout", "2"),
    untouched: ["extend", "resume"],
  },
  answers: ["KIT_SEMAPHORE_TIMEOUT", "KIT_SEMAPHORE_WEIGHT"],
  open: (client) => {
    const made: Semaphore[] = [];
    const make = (name: string, own: Partial<SemaphoreOptions>): Semaphore => {
      const one = createSemaphore(client, name, { permits: 2, ...options, ...own });
      made.push(one);
      return one;
    };
    return {
      callsOf: async (name) => {
        const group = make(name, { permitsPerTenant: 2 });
        const ask = { tenant, renew: false };
        const permit = await group.acquire(ask);
        const text = permit.serialise();
        return {
          tryAcquire: () => group.tryAcquire(ask),
          acquire: () => group.acquire({ ...ask, waitMs: 30 }),
          using: () => group.using(() => undefined, { ...ask, waitMs: 30 }),
          setPermits: () => group.setPermits(3),
          inspect: () => group.inspect(),
          extend: () => permit.extend(),
          release: () => permit.release(),
          resume: () => group.resume(text),
        };
      },
      refused: () => {
        const plain = make("x", {});
        const group = make("y", { permitsPerTenant: 1 });
        return {
          // The factory throws synchronously, so it is called by an async function.
          ...each(refusedNames, async (name) => make(name, {})),
          ...each(refusedTexts, (text) => plain.resume(text)),
          "no limit": async () => make("x", { permits: Number.NaN }),
          "a limit beyond all bounds": async () => make("x", { permits: 1e9 + 1 }),
          "a negative limit": () => plain.setPermits(-1),
          "a weight of 0": () => plain.acquire({ weight: 0 }),
          "a weight of a half": () => plain.acquire({ weight: 0.5 }),
          "a weight beyond all bounds": () => plain.acquire({ weight: 1e9 + 1 }),
          "a priority beyond its bounds": () => plain.acquire({ priority: 1_001 }),
          "a tenant of 129 characters": () => group.acquire({ tenant: "t".repeat(129) }),
          "a tenant of half a surrogate pair": () => group.acquire({ tenant: "\ud800" }),
          "no tenant in a group": () => group.acquire(),
          "a tenant without a group": () => plain.acquire({ tenant }),
          "a holder of 64 MB": () => plain.acquire({ holder: huge }),
          "a lease of 0 ms": () => plain.acquire({ leaseMs: 0 }),
          "a negative wait": () => plain.acquire({ waitMs: -1 }),
        };
      },
      useOf: async (name) => {
        const group = make(name, { permits: 1, permitsPerTenant: 1 });
        const odd = name.slice(0, 128);
        const permit = await group.acquire({ tenant: odd, holder: odd, waitMs: 0 });
        const isFree = (await group.tryAcquire({ tenant: "other" })) !== null;
        const [holder] = (await group.inspect()).holders;
        const isShown = holder?.tenant === odd && holder.holder === odd;
        if ((await permit.release()) !== "released") return "was not released";
        return (isFree && "held twice") || (!isShown && "inspect shows another tenant or holder");
      },
      close: () => Promise.all(made.map((one) => one.close({ timeoutMs: 0 }))),
    };
  },
};

const dumpScript = `local found = {}
  for i, key in ipairs(KEYS) do found[i] = redis.sha1hex(redis.call('DUMP', key) or '') end
  return found`;

describe.each([
  ["lock", lock],
  ["semaphore", semaphore],
])("The %s", (_, { keyOf, garbage, newer, answers, open }) => {
  let server: RedisServer;
  let client: Awaited<ReturnType<typeof connect>>;
  let opened: ReturnType<Subject["open"]>;

  beforeAll(async () => {
    server = await startRedis();
    client = await connect(server.url);
  });
  // Afresh, so that no lease of an earlier test sends anything.
  beforeEach(() => void (opened = open(client as RedisLike)));
  afterEach(() => opened.close());
  afterAll(async () => {
    await client.close();
    await server.stop();
  });

  const errorOf = (call: () => Promise<unknown>): Promise<unknown> =>
    call().then(
      () => undefined,
      (error: unknown) => error,
    );

  let names = 0;

  /**
   * Makes every call of the API with one key spoilt, each on keys of its own. Resolves with what is wrong, and with the
   * number of calls that were refused.
   */
  const probe = async (
    part: string,
    spoil: (key: string) => Promise<unknown>,
    isRight: (what: string, code: string | undefined) => boolean,
  ): Promise<{ refusals: number; wrong: string[] }> => {
    const wrong: string[] = [];
    let refusals = 0;
    const calls = Object.keys(await opened.callsOf(`probe-${String(++names)}`));
    for (const what of calls) {
      const name = `probe-${String(++names)}`;
      const call = (await opened.callsOf(name))[what] ?? (() => Promise.reject(new Error("no call")));
      await spoil(keyOf(name, part));
      const keys = Object.keys(garbage).map((one) => keyOf(name, one));
      const dump = (): Promise<unknown> => server.call("EVAL", dumpScript, String(keys.length), ...keys);
      const before = await dump();
      const error = await errorOf(call);
      const code = KitError.is(error) ? error.code : undefined;
      if (error !== undefined && code === undefined) wrong.push(`${what}: an error without a type: ${inspect(error)}`);
      if (!isRight(what, code)) wrong.push(`${what}: ${code ?? "succeeded"}`);
      if (error === undefined || (code !== undefined && answers.includes(code))) continue;
      refusals++;
      expect(await dump(), `${what} failed with ${String(code)}, and changed something`).toEqual(before);
    }
    return { refusals, wrong };
  };

  it.each(Object.keys(garbage))("refuses foreign data at its key %s, and changes nothing, or works", async (part) => {
    const refusals: number[] = [];
    for (const [how, spoil] of Object.entries({ ...otherTypes, ...garbage[part] })) {
      const afresh = async (key: string): Promise<void> => {
        await server.call("DEL", key);
        await spoil(server, key);
      };
      const found = await probe(part, afresh, () => true);
      expect(found.wrong, how).toEqual([]);
      refusals.push(found.refusals);
    }
    expect(Math.max(...refusals)).toBeGreaterThan(0);
  });

  it("refuses a newer layout in every call that reads it, and changes nothing", async () => {
    const isRight = (what: string, code: string | undefined): boolean =>
      newer.untouched.includes(what) || code === "KIT_LAYOUT";
    const { refusals, wrong } = await probe(newer.part, (key) => newer.write(server, key), isRight);
    expect(wrong).toEqual([]);
    expect(refusals).toBeGreaterThan(0);
  });

  it("refuses values out of bounds with a typed error, and sends nothing", async () => {
    // The first acquire comes before the count, since the client sends commands of its own with it.
    expect(await opened.useOf("first")).toBe(false);
    const commands = async (): Promise<number> =>
      Number(/total_commands_processed:(\d+)/.exec(String(await server.call("INFO", "stats")))?.[1]);
    for (const [what, call] of Object.entries(opened.refused())) {
      const before = await commands();
      const error = await errorOf(call);
      const isTyped = KitError.is(error) || error instanceof TypeError || error instanceof RangeError;
      expect(isTyped, `${what}: ${inspect(error).slice(0, 200)}`).toBe(true);
      // Reading the count is itself one command.
      expect(await commands(), `${what} was sent to the server`).toBe(before + 1);
    }
  });

  it.each(oddNames)("takes the name %j", async (name) => {
    expect(await opened.useOf(name)).toBe(false);
  });
});
