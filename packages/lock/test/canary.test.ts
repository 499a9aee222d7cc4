import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { inspect } from "node:util";
import { connect, KitError } from "@kit/core";
import { eventually, FaultProxy, startRedis, type StartRedisOptions, useRedis } from "@kit/testing";
import { exposures, recordTold, rejection, tappedTokens, tokenPattern, withoutOp } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { type AcquireOptions, createLock, type Lock, type LockOptions } from "../src/index.js";
import { lockKeys } from "../src/keys.js";

const redis = useRedis(vitest);

/** Every password and every stored text holds it. Names and holders are for people to see: they do not. */
const canary = "CANARY";
const password = `${canary}-pass`;
const prefix = "shown";
const name = "chest";
const keys = lockKeys(prefix)(name);

const raised = new Set<string>();

/** A lock on a server with a password, all that it sent, and all that it reported. */
const guarded = async (options: StartRedisOptions = {}, lockOptions: LockOptions = {}) => {
  const server = await startRedis({ ...options, password });
  redis.defer(() => server.stop());
  const proxy = await FaultProxy.start({ port: server.nodes[0]!.port });
  redis.defer(() => proxy.close());
  const url = `redis://:${password}@127.0.0.1:${String(proxy.port)}`;
  const client = await connect({ url, deadlineMs: 10_000 });
  redis.defer(() => client.close());
  const tokens = tappedTokens(client);
  const lock = createLock(client, { prefix, deadlineMs: 1_000, holder: "shown", ...lockOptions });
  redis.defer(() => lock.close({ timeoutMs: 0 }));
  const reported = recorded(lock);
  const raises = async (code: string, promise: Promise<unknown>): Promise<void> => {
    const error = (await rejection(promise)) as Error;
    expect(KitError.is(error) ? error.code : error).toBe(code);
    raised.add(code);
    reported.push(error);
  };
  const expectSilence = (): void => {
    expect(tokens.size).toBeGreaterThan(0);
    for (const one of reported) expect(exposures(withoutOp(one), [canary, ...tokens])).toEqual([]);
    expect(exposures(lock, [canary, ...tokens])).toEqual([]);
  };
  return { server, proxy, url, client, tokens, lock, reported, raises, expectSilence };
};

/** All events of a lock, and what its diagnostics channels publish. */
const recorded = (lock: Lock): object[] =>
  recordTold(
    redis,
    lock as Parameters<typeof recordTold>[1],
    ["acquired", "waiting", "stillWaiting", "requeued", "released", "lost", "error"],
    ["kit:lock.acquire", "kit:lock.release"],
  );

it("a logged lease shows the caller's fields, and not its token", async () => {
  const { lock } = await guarded();
  const lease = await lock.acquire(name, { leaseMs: 60_000 });
  const { token, fencingToken } = lease;
  expect(token).toMatch(/^[\da-f-]{36}$/);
  const logged = (): string => inspect(lease, { depth: 9, showHidden: true, breakLength: Infinity });
  const shown = `Lease { name: 'chest', fencingToken: '${fencingToken}', holder: 'shown', state: `;
  expect(logged()).toMatch(/, state: 'held', leaseMs: 60000, remainingMs: 5\d{4}\.\d+ \}$/);
  expect(logged().startsWith(shown)).toBe(true);
  await lease.release();
  expect(logged()).toBe(`${shown}'released', leaseMs: 60000, remainingMs: 0 }`);
  expect(JSON.parse(JSON.stringify(lease))).toEqual({ name, fencingToken });
  // Nothing but the property of that name has it.
  expect(exposures(lease, [token])).toEqual([".token"]);
  expect(inspect(lease, { depth: 9, showHidden: true, customInspect: false })).not.toContain(token);
});

describe("neither password nor token nor stored text is shown by any error, event or trace", () => {
  it("of a lock that works as it should", async () => {
    const { server, lock, raises, tokens, expectSilence } = await guarded();
    const lease = await lock.acquire(name);
    await raises("KIT_LOCK_TIMEOUT", lock.acquire(name, { waitMs: 50 }));
    expect(await lock.tryAcquire(name)).toBeNull();
    expect(exposures(await lock.inspect(name), [canary, ...tokens])).toEqual([]);
    const waiting = lock.acquire(name);
    await once(lock as never, "waiting");
    await lease.release();
    const second = await waiting;
    const third = lock.acquire(name);
    await eventually(async () => expect((await lock.inspect(name)).waiters).toBe(1));
    expect(await lock.forceRelease(name)).toBe("shown");
    await raises("KIT_LOCK_LOST", second.extend());
    const text = (await third).serialise();
    await server.call("DEL", keys.lease);
    await raises("KIT_LOCK_LOST", lock.resume(text));
    await raises("KIT_LOCK_LOST", (await third).extend());
    expect(exposures(second, [canary])).toEqual([]);
    await lock.close();
    await raises("KIT_CLOSED", lock.acquire(name));
    expectSilence();
  });

  it("of a server without a replica that a grant must reach", async () => {
    const { lock, raises, expectSilence } = await guarded(
      {},
      { durable: { replicas: 1, timeoutMs: 20 }, deadlineMs: 10_000 },
    );
    await raises("KIT_LOCK_NOT_DURABLE", lock.acquire(name));
    expectSilence();
  });

  it("of a section that would wait for itself", async () => {
    const { lock, raises, expectSilence } = await guarded({}, { reentrant: true });
    await lock.using(name, () => raises("KIT_LOCK_SELF_DEADLOCK", lock.acquire(name)));
    expectSilence();
  });

  it("of a queue that is full", async () => {
    const { lock, raises, expectSilence } = await guarded({}, { maxWaiters: 0 });
    await lock.acquire(name);
    await raises("KIT_LOCK_QUEUE_FULL", lock.acquire(name));
    expectSilence();
  });

  it("of a server that rejects the command", async () => {
    const { server, lock, raises, expectSilence } = await guarded();
    const stored = `${canary}-stored`;
    for (const key of [keys.lease, keys.fence, keys.queue]) {
      await server.call("RPUSH", key, stored);
      await raises("KIT_KEY_TYPE", lock.tryAcquire(name));
      await server.call("DEL", key);
    }
    await server.call("RPUSH", keys.waiters, stored);
    const held = await lock.acquire(name);
    await raises("KIT_KEY_TYPE", lock.acquire(name));
    await server.call("DEL", keys.waiters);
    await held.release();
    for (const layout of [`2:${stored}`, stored]) {
      await server.call("SET", keys.fence, layout);
      await raises("KIT_LAYOUT", lock.tryAcquire(name));
    }
    await server.call("DEL", keys.fence);
    await server.call("CONFIG", "SET", "maxmemory", "1");
    await raises("KIT_SERVER_FULL", lock.tryAcquire(name));
    await server.call("CONFIG", "SET", "maxmemory", "0");
    await server.call("CONFIG", "SET", "min-replicas-to-write", "1");
    await raises("KIT_SERVER", lock.tryAcquire(name));
    await server.call("CONFIG", "SET", "min-replicas-to-write", "0");
    await server.call("REPLICAOF", "127.0.0.1", "1");
    await raises("KIT_READONLY", lock.tryAcquire(name));
    await server.call("CONFIG", "SET", "replica-serve-stale-data", "no");
    await raises("KIT_LOADING", lock.tryAcquire(name));
    expectSilence();
  });

  it("of a server that is busy", async () => {
    const { server, lock, raises, expectSilence } = await guarded({ args: ["--busy-reply-threshold", "50"] });
    const endless = rejection(server.client().call("EVAL", "while true do end", "0"));
    await eventually(async () => expect(String(await rejection(server.call("PING")))).toContain("BUSY"));
    await raises("KIT_BUSY", lock.tryAcquire(name));
    await server.call("SCRIPT", "KILL");
    await endless;
    expectSilence();
  });

  it("of a Cluster that serves nothing", async () => {
    const { lock, raises, expectSilence } = await guarded({ args: ["--cluster-enabled", "yes"] });
    await raises("KIT_CLUSTER", lock.tryAcquire(name));
    expectSilence();
  });

  it("of credentials that are missing or not enough", async () => {
    const { server, client: known, lock, raises, reported, expectSilence } = await guarded();
    // Forgets who it is, as after a change of the password.
    await known.call("RESET");
    await raises("KIT_AUTH", lock.tryAcquire(name));
    const wrong = server.client({ password: `${canary}-wrong` });
    wrong.on("error", () => undefined);
    const locked = createLock(wrong, { prefix, deadlineMs: 1_000 });
    const error = (await rejection(locked.tryAcquire(name))) as KitError;
    expect(["KIT_AUTH", "KIT_UNAVAILABLE"]).toContain(error.code);
    reported.push(error);
    for (const rules of [
      ["~other:*", "+@all"],
      ["~*", "+@all", "-set"],
      ["~*", "+@all", "-evalsha"],
    ]) {
      await server.call("ACL", "SETUSER", "app", "reset", "on", `>${canary}-app`, "&*", ...rules);
      await server.call("DEL", keys.lease);
      const client = server.client({ username: "app", password: `${canary}-app` });
      const refused = createLock(client, { prefix, deadlineMs: 1_000 });
      await raises("KIT_NO_PERMISSION", refused.tryAcquire(name));
      await refused.close({ timeoutMs: 0 });
    }
    await locked.close({ timeoutMs: 0 });
    expectSilence();
  });

  it("of a server that cannot be reached, or does not answer", async () => {
    const { server, proxy, lock, raises, expectSilence } = await guarded();
    const lease = await lock.acquire(name, { renew: false });
    proxy.down.hole = true;
    await raises("KIT_UNKNOWN_OUTCOME", lock.acquire("another"));
    await raises("KIT_UNAVAILABLE", lock.inspect(name));
    await rejection(lease.extend());
    await raises("KIT_UNAVAILABLE", lock.acquire("third", { waitMs: 100 }));
    proxy.heal();
    await eventually(async () => void (await lock.inspect(name)));
    proxy.down.hole = true;
    await raises("KIT_UNKNOWN_OUTCOME", lease.release());
    proxy.heal();
    await server.stop();
    await raises("KIT_UNAVAILABLE", lock.inspect(name));
    expectSilence();
  });

  it("of a name, an option or a text that cannot be used", async () => {
    const { client, lock, reported, raises, expectSilence } = await guarded();
    const lease = await lock.acquire(name);
    const text = lease.serialise();
    for (const bad of [`${canary}${"x".repeat(600)}`, `${canary}\ud800`]) {
      await raises("KIT_NAME", lock.inspect(bad));
      await raises("KIT_NAME", lock.forceRelease(bad));
    }
    for (const spoilt of [
      text.slice(1),
      text.replace('"layout":1', '"layout":2'),
      `[${text}]`,
      "",
      text.replace(/"name":"[^"]*"/, '"name":7'),
    ])
      reported.push((await rejection(lock.resume(spoilt))) as Error);
    const secret = { password, toString: () => password, toJSON: () => password };
    for (const [option, value] of [
      ["password", password],
      ["holder", secret],
      ["holder", `${canary}${"x".repeat(200)}`],
      ["leaseMs", secret],
      ["prefix", [password]],
      ["prefix", `${canary} `],
      ["isolate", secret],
    ] as const) {
      for (const refused of [
        Promise.resolve().then(() => createLock(client, { [option]: value } as LockOptions)),
        lock.acquire(name, { [option]: value } as AcquireOptions),
      ]) {
        const error = (await rejection(refused)) as Error;
        expect([TypeError, RangeError]).toContain(error.constructor);
        reported.push(error);
      }
    }
    reported.push((await rejection(Promise.resolve().then(() => createLock(secret as never)))) as Error);
    expect(reported.length).toBeGreaterThan(20);
    expectSilence();
  });
});

describe("a process that dies of an error prints neither password nor token nor stored text", () => {
  it.each([
    [
      "a lock that is held",
      "await lock.acquire('chest'); await lock.acquire('chest', { waitMs: 0 });",
      "KIT_LOCK_TIMEOUT",
    ],
    [
      "a lease that is lost",
      "const lease = await lock.acquire('chest'); await redis.del('shown:lock:{chest}:lease'); await lease.extend();",
      "KIT_LOCK_LOST",
    ],
    [
      "a wrong type",
      "await redis.rpush('shown:lock:{chest}:lease', process.env.STORED); await lock.tryAcquire('chest');",
      "KIT_KEY_TYPE",
    ],
    [
      "another layout",
      "await redis.set('shown:lock:{chest}:fence', process.env.STORED); await lock.tryAcquire('chest');",
      "KIT_LAYOUT",
    ],
    ["a client that has ended", "redis.disconnect(); await lock.inspect('chest');", "KIT_UNAVAILABLE"],
    [
      "an error that is logged as an object",
      "await lock.acquire('chest'); await lock.acquire('chest', { waitMs: 0 }).catch((error) => { console.error(error); console.dir(error, { depth: 9, showHidden: true }); process.exit(1); });",
      "KIT_LOCK_TIMEOUT",
    ],
  ])("%s", async (_, failing, code) => {
    const { url } = await guarded();
    const source = `
      import { connect } from "@kit/core";
      import { createLock } from "@kit/lock";
      const redis = await connect({ url: process.env.REDIS_URL, deadlineMs: 60_000 });
      const lock = createLock(redis, { prefix: "shown", deadlineMs: 60_000 });
      ${failing}`;
    const child = spawn(process.execPath, ["--input-type=module", "-e", source], {
      env: { ...process.env, NODE_OPTIONS: "", REDIS_URL: url, STORED: `${canary}-stored` },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let printed = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => (printed += String(chunk)));
    const [exitCode] = (await once(child, "close")) as [number];
    expect(exitCode).toBe(1);
    expect(printed).toContain(code);
    expect(printed).not.toContain(canary);
    expect(printed).not.toMatch(tokenPattern);
  });
});

describe("the search", () => {
  it("finds a token and a password that are put back into an error", async () => {
    const { lock, tokens, reported } = await guarded();
    const lease = await lock.acquire(name);
    for (const leak of [
      new KitError("KIT_SERVER", "x", { cause: { token: lease.token } }),
      new KitError("KIT_SERVER", `lock.release of ${lease.token} failed`),
      Object.defineProperty(new KitError("KIT_SERVER", "x"), "args", { value: [lease.token] }),
    ])
      expect(exposures(leak, [...tokens])).toContain("inspect");
    const raw = await rejection(redis.connect().call("AUTH", password));
    expect(exposures(new KitError("KIT_AUTH", "x", { cause: raw }), [canary])).toContain("inspect");
    expect(reported.length).toBeGreaterThan(3);
  });
});

it("every code that a lock can raise was raised", () => {
  // Those of transactions and of connect(); of a server that forgets a script while it loads it; of faults; of configuration; of
  // workers; of a lock on several servers; of a client over HTTP.
  const others = [
    ...["KIT_CONFLICT", "KIT_TARGET", "KIT_NOSCRIPT", "KIT_UNEXPECTED", "KIT_RECOVERED"],
    ...["KIT_LOCK_QUORUM", "KIT_LOCK_SAME_SERVER", "KIT_UNSUPPORTED"],
  ];
  const isOthers = (code: string): boolean => others.includes(code) || /^KIT_(CONFIG|COMPONENT)_/.test(code);
  const sources = ["../src", "../../core/src"].flatMap((path) => {
    const folder = fileURLToPath(new URL(path, import.meta.url));
    return readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => readFileSync(`${entry.parentPath}/${entry.name}`, "utf8"));
  });
  const codes = new Set([...sources.join().matchAll(/["'](KIT_[A-Z_]+)["']/g)].map(([, code]) => code!));
  expect([...raised].toSorted()).toEqual([...codes].filter((code) => !isOthers(code)).toSorted());
});
