import { inspect } from "node:util";
import { connect, KitError } from "@kit/core";
import { createLock, type Lease, type Lock } from "@kit/lock";
import { type RedisServer, startRedis } from "@kit/testing";
import type { Edge } from "../../workload.js";

interface Findings {
  bites: number;
  checked: number;
  readonly broken: string[];
}

const leaseMs = 60_000;
const deadlineMs = 1_000;

/** A lock with a holder whose keys can be spoilt. */
interface Scene {
  readonly server: RedisServer;
  readonly lock: Lock;
  readonly name: string;
  readonly lease: Lease;
  readonly text: string;
}

const keysOf = (name: string): Record<string, string> =>
  Object.fromEntries(["lease", "fence", "queue", "waiters"].map((part) => [part, `kit:lock:{${name}}:${part}`]));

/** Every call of the API, once. Those that wait do it for a moment only. */
const calls: Readonly<Record<string, (scene: Scene) => Promise<unknown>>> = {
  tryAcquire: ({ lock, name }) => lock.tryAcquire(name, { renew: false }),
  acquire: ({ lock, name }) => lock.acquire(name, { waitMs: 30, renew: false }),
  using: ({ lock, name }) => lock.using(name, () => undefined, { waitMs: 30, renew: false }),
  inspect: ({ lock, name }) => lock.inspect(name),
  forceRelease: ({ lock, name }) => lock.forceRelease(name),
  extend: ({ lease }) => lease.extend(),
  release: ({ lease }) => lease.release(),
  resume: ({ lock, text }) => lock.resume(text),
};

type Spoil = (server: RedisServer, key: string) => Promise<unknown>;

const set =
  (value: string): Spoil =>
  (server, key) =>
    server.call("SET", key, value);

/** Another type of data than belongs there; and values of the right type that nobody of ours wrote. */
const spoils: Readonly<Record<string, Readonly<Record<string, Spoil>>>> = {
  any: {
    "a string": set("x"),
    "a list": (server, key) => server.call("RPUSH", key, "x"),
    "a set": (server, key) => server.call("SADD", key, "x"),
    "a hash": (server, key) => server.call("HSET", key, "field", "x"),
    "a sorted set": (server, key) => server.call("ZADD", key, "1.5", "x"),
    "a stream": (server, key) => server.call("XADD", key, "*", "field", "x"),
  },
  lease: { empty: set(""), "no bar": set("nobody"), "bars only": set("|||"), "not text": set("\u0000\u0001|\uffff") },
  fence: {
    empty: set(""),
    "no number": set("1:x"),
    "no layout": set("x:1"),
    huge: set(`1:${"9".repeat(30)}`),
    bars: set("1:::"),
  },
  queue: { "no waiter behind it": (server, key) => server.call("ZADD", key, "-1", "nobody", "inf", "nobody-else") },
  waiters: {
    "a counter that does not count": (server, key) => server.call("HSET", key, "#", "x"),
    "records that say nothing": (server, key) => server.call("HSET", key, "a", "", "b", "1", "c", "x y z"),
  },
};

const dumpOf = async (server: RedisServer, name: string): Promise<string> => {
  const script =
    "local found = {} for i, key in ipairs(KEYS) do found[i] = redis.call('DUMP', key) or '' end return redis.sha1hex(table.concat(found, '\\n'))";
  const keys = Object.values(keysOf(name));
  return String(await server.call("EVAL", script, String(keys.length), ...keys));
};

/** What a call did to keys that were spoilt: a typed error and no change, or whatever it makes of them. */
const probe = async (
  scene: Scene,
  what: string,
  call: (scene: Scene) => Promise<unknown>,
  found: Findings,
  code?: string,
): Promise<void> => {
  const { server, name } = scene;
  const before = await dumpOf(server, name);
  found.checked++;
  let error: unknown;
  try {
    await call(scene);
  } catch (thrown) {
    error = thrown;
  }
  if (error === undefined) {
    if (code !== undefined) found.broken.push(`${what}: succeeded, and should be refused with ${code}`);
    return;
  }
  // That it is held by whatever stands there is an answer, and who waited for it may leave a trace that lapses.
  if (KitError.is(error) && error.code === "KIT_LOCK_TIMEOUT" && code === undefined) return;
  found.bites++;
  if (!KitError.is(error)) found.broken.push(`${what}: an error without a type: ${inspect(error)}`);
  else if (code !== undefined && error.code !== code) found.broken.push(`${what}: ${error.code}, not ${code}`);
  if ((await dumpOf(server, name)) !== before) found.broken.push(`${what}: failed, and changed something`);
};

const withLock = async (work: (server: RedisServer, lock: Lock) => Promise<void>): Promise<void> => {
  await using server = await startRedis();
  await using client = await connect(server.url);
  const lock = createLock(client, { leaseMs, deadlineMs });
  try {
    await work(server, lock);
  } finally {
    await lock.close({ timeoutMs: 0 });
  }
};

/** Fresh for each call: what one does to spoilt keys is not the next one's scene. */
const sceneOf = async (server: RedisServer, lock: Lock, name: string): Promise<Scene> => {
  const lease = await lock.acquire(name, { renew: false });
  return { server, lock, name, lease, text: lease.serialise() };
};

const spoiltKeys = async (): Promise<Findings> => {
  const found: Findings = { bites: 0, checked: 0, broken: [] };
  await withLock(async (server, lock) => {
    let scenes = 0;
    for (const part of ["lease", "fence", "queue", "waiters"])
      for (const [how, spoil] of Object.entries({ ...spoils["any"], ...spoils[part] }))
        for (const [what, call] of Object.entries(calls)) {
          const scene = await sceneOf(server, lock, `spoilt-${String(++scenes)}`);
          const key = keysOf(scene.name)[part] ?? "";
          await server.call("DEL", key);
          await spoil(server, key);
          await probe(scene, `${what} with ${how} at ${part}`, call, found);
        }
  });
  return found;
};

const newerLayout = async (): Promise<Findings> => {
  const found: Findings = { bites: 0, checked: 0, broken: [] };
  await withLock(async (server, lock) => {
    for (const [what, call] of Object.entries(calls)) {
      // What touches only a lease of our own needs no fence.
      const isRefused = !["extend", "resume", "release"].includes(what);
      const scene = await sceneOf(server, lock, `newer-${what}`);
      await server.call("SET", keysOf(scene.name)["fence"] ?? "", "2:1:what-ever:comes");
      await probe(scene, `${what} on a newer layout`, call, found, isRefused ? "KIT_LAYOUT" : undefined);
    }
  });
  return found;
};

const hugeName = "n".repeat(513);
const refusals: Readonly<Record<string, (lock: Lock) => Promise<unknown>>> = {
  "a name of 513 bytes": (lock) => lock.tryAcquire(hugeName),
  "a name of 513 bytes in UTF-8": (lock) => lock.tryAcquire("\u00e9".repeat(257)),
  "a name of 10 MB": (lock) => lock.acquire("n".repeat(10_000_000)),
  "an empty name": (lock) => lock.acquire(""),
  "half a surrogate pair": (lock) => lock.acquire("\ud800"),
  "a huge name to inspect": (lock) => lock.inspect(hugeName),
  "a huge name to take": (lock) => lock.forceRelease(hugeName),
  "a huge name to use": (lock) => lock.using(hugeName, () => undefined),
  "a holder of 129 characters": (lock) => lock.acquire("x", { holder: "h".repeat(129) }),
  "a holder of 64 MB": (lock) => lock.acquire("x", { holder: "h".repeat(64_000_000) }),
  "a lease of 0 ms": (lock) => lock.acquire("x", { leaseMs: 0 }),
  "a lease of two days": (lock) => lock.acquire("x", { leaseMs: 172_800_000 }),
  "a lease of no number": (lock) => lock.acquire("x", { leaseMs: Number.NaN }),
  "a negative wait": (lock) => lock.acquire("x", { waitMs: -1 }),
  "text of 10^5 levels": (lock) => lock.resume(`${"[".repeat(1e5)}${"]".repeat(1e5)}`),
  "text of 64 MB": (lock) => lock.resume("x".repeat(64_000_000)),
  "text with a huge name": (lock) => lock.resume(JSON.stringify({ name: hugeName })),
};

const accepted = ["n".repeat(512), "{", "}", "a{b}c", ":", "\u0000", "\n", "*", "__proto__", "\u{1f512}", "%7B"];

const hugeInput = async (): Promise<Findings> => {
  const found: Findings = { bites: 0, checked: 0, broken: [] };
  await withLock(async (server, lock) => {
    // What the client asks for itself is asked for.
    await (await lock.acquire("first")).release();
    const commands = async (): Promise<number> =>
      Number(/total_commands_processed:(\d+)/.exec(String(await server.call("INFO", "stats")))?.[1]);
    for (const [what, call] of Object.entries(refusals)) {
      const before = await commands();
      found.checked++;
      const error: unknown = await call(lock).then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      const isTyped = KitError.is(error) || error instanceof TypeError || error instanceof RangeError;
      if (isTyped) found.bites++;
      else
        found.broken.push(
          `${what}: ${error === undefined ? "was taken" : `an error without a type: ${inspect(error).slice(0, 200)}`}`,
        );
      // The look itself is one command.
      if ((await commands()) !== before + 1) found.broken.push(`${what}: was sent to the server`);
    }
    for (const name of accepted) {
      found.checked++;
      const lease = await lock.acquire(name, { waitMs: 0 });
      if ((await lock.tryAcquire(name)) !== null) found.broken.push(`${JSON.stringify(name)}: held twice`);
      await lease.release();
    }
  });
  return found;
};

/** Rows whose fault is what the server holds, or what the caller gives. */
export const lockEdges: readonly Edge[] = [
  { number: 29, kind: "29 huge input", run: hugeInput },
  { number: 30, kind: "30 spoilt keys", run: spoiltKeys },
  { number: 31, kind: "31 newer layout", run: newerLayout },
];
