import { createLock } from "@kit/lock";
import { createQuorumLock } from "@kit/lock/quorum";
import { createReadWriteLock } from "@kit/lock/read-write";
import { eventually, startRedis, type RedisServer } from "@kit/testing";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { kit, programBeside, started } from "./harness.js";

describe("kit inspect lock", () => {
  let server: RedisServer;

  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server.stop());

  const inspect = (name: string, ...args: string[]) => kit(["inspect", "lock", name, "--url", server.url, ...args]);
  const inspectJson = async (name: string, ...args: string[]): Promise<Record<string, unknown>> => {
    const { stdout } = await inspect(name, "--json", ...args);
    return JSON.parse(stdout) as Record<string, unknown>;
  };

  it("shows a lock without a holder", async () => {
    expect(await inspect("nobody's")).toEqual({
      code: 0,
      stdout: expect.stringMatching(
        /^lock +nobody's\nholder +none\nfencing token +none: not acquired in the last week[^]*\nwaiters +none\n$/,
      ),
      stderr: "",
    });
    expect(await inspectJson("nobody's")).toEqual({
      version: 1,
      url: server.url,
      lock: "nobody's",
      state: "free",
      holder: null,
      since: null,
      msLeft: null,
      fencingToken: null,
      waiters: 0,
      queue: [],
    });
  });

  it("says who holds it, since when, for how long, and who waits", async () => {
    const lock = createLock(server.client(), { holder: "web-1" });
    onTestFinished(() => lock.close({ timeoutMs: 0 }));
    const before = Date.now();
    const lease = await lock.acquire("item:42", { leaseMs: 30_000 });
    const waiting = lock.acquire("item:42", { holder: "web-2" });
    waiting.catch(() => undefined);
    await eventually(async () => expect((await lock.inspect("item:42")).waiters).toBe(1));
    const { stdout } = await inspect("item:42", "--keys");
    expect(stdout).toMatch(
      /^lock +item:42\nholder +web-1\nsince +20\S+Z\nlease +expires in \d+ s unless renewed\nfencing token +\d{16}\nwaiters +1: web-2\nkey +kit:lock:\{item%3A42\}:lease +string, expires in \d+ s\n/,
    );
    const report = await inspectJson("item:42", "--keys");
    expect(report).toMatchObject({
      state: "held",
      holder: "web-1",
      fencingToken: lease.fencingToken,
      waiters: 1,
      queue: ["web-2"],
    });
    const since = Date.parse(String(report["since"]));
    expect(since).toBeGreaterThanOrEqual(before - 1);
    expect(since).toBeLessThanOrEqual(Date.now() + 1);
    expect(report["msLeft"]).toBeGreaterThan(0);
    expect((report["keys"] as { type: string }[]).map(({ type }) => type)).toEqual([
      "string",
      "string",
      "zset",
      "hash",
    ]);
    await lease.release();
    await (await waiting).release();
  });

  it("says who has a quorum lock of that name on this server", async () => {
    const locks = createQuorumLock([server.client()], { holder: "web-1", restartGuardMs: 0 });
    onTestFinished(() => locks.close({ timeoutMs: 0 }));
    await locks.acquire("nightly", { leaseMs: 30_000 });
    expect((await inspect("nightly", "--keys")).stdout).toMatch(
      /^lock +nightly\nquorum +held on this server\nholder +web-1, expires in \d+ s unless renewed\nkey +kit:lock:\{nightly\}:quorum +string, /,
    );
    expect(await inspectJson("nightly")).toMatchObject({ state: "free", quorum: { holder: "web-1" } });
  });

  it("says who holds a read/write lock of that name, and who waits in which mode", async () => {
    const locks = createReadWriteLock(server.client(), { holder: "web-1" });
    onTestFinished(() => locks.close({ timeoutMs: 0 }));
    await locks.read.acquire("prices", { leaseMs: 30_000 });
    const waiting = locks.write.acquire("prices", { holder: "web-2" });
    waiting.catch(() => undefined);
    await eventually(async () => expect((await locks.inspect("prices")).waiters).toBe(1));
    const { stdout } = await inspect("prices", "--keys");
    expect(stdout).toMatch(
      /^lock +prices\nread\/write +held by 1 reader, 1 waiting\nholder +web-1, expires in \d+ s unless renewed\nfencing token +none stored\nwaiters +1: web-2 \(writes\)\nkey +kit:lock:\{prices\}:rw-leases +zset, /,
    );
    expect(await inspectJson("prices")).toMatchObject({
      state: "free",
      readWrite: {
        state: "read",
        holding: 1,
        holders: [{ holder: "web-1" }],
        queue: [{ mode: "write", holder: "web-2" }],
      },
    });
    const plain = createLock(server.client(), { holder: "web-3" });
    onTestFinished(() => plain.close({ timeoutMs: 0 }));
    await plain.acquire("prices");
    expect((await inspect("prices")).stdout).toMatch(
      /^lock +prices\nholder +web-3\n[^]*\nread\/write +held by 1 reader/,
    );
  });

  it("shows that a lease never expires, and that its start is unknown", async () => {
    const redis = server.client();
    await redis.set("kit:lock:{stuck}:lease", "token|web-1");
    await redis.set("kit:lock:{stuck}:fence", "1:9999999999999999:x");
    const { code, stdout } = await inspect("stuck");
    expect(stdout).toMatch(/lease +never expires: its expiry was removed/);
    expect(stdout).toMatch(/since +unknown: the server's clock moved backward/);
    expect(code).toBe(0);
  });

  it("looks under the given prefix", async () => {
    const lock = createLock(server.client(), { prefix: "shop", holder: "till" });
    onTestFinished(() => lock.close({ timeoutMs: 0 }));
    await lock.acquire("a");
    expect((await inspect("a", "--prefix", "shop")).stdout).toMatch(/holder +till/);
    expect((await inspect("a")).stdout).toMatch(/holder +none/);
  });

  it("changes nothing", async () => {
    const redis = server.client();
    await redis.set("kit:lock:{same}:lease", "token|web-1", "PXAT", 4_000_000_000_000);
    await inspect("same", "--keys");
    expect(await redis.get("kit:lock:{same}:lease")).toBe("token|web-1");
    expect(await redis.pttl("kit:lock:{same}:lease")).toBeGreaterThan(1e12);
    expect(await redis.keys("kit:lock:{same}:*")).toHaveLength(1);
  });

  it("exits 2 when the key holds something else", async () => {
    await server.client().lpush("kit:lock:{list}:lease", "x");
    const { code, stdout, stderr } = await inspect("list");
    expect(stderr).toMatch(/^kit: .*kit:lock:\{list\}:lease/);
    expect(stdout).toBe("");
    expect(code).toBe(2);
  });

  it("exits 3 without a server, and with a wrong password", async () => {
    const gone = await started();
    await gone.stop();
    const { code, stderr } = await kit(["inspect", "lock", "a", "--url", gone.url]);
    expect(stderr).toMatch(/^kit: Cannot reach Redis at 127\.0\.0\.1/);
    expect(code).toBe(3);
    const guarded = await started({ password: "right" });
    const wrong = await kit(["inspect", "lock", "a", "--url", guarded.url.replace("right", "wrong")]);
    expect(wrong.code).toBe(3);
  });

  it("says in one sentence that @kit/lock is not installed", async () => {
    const { code, stdout, stderr } = await kit(["inspect", "lock", "a", "--url", server.url], {
      program: programBeside(),
    });
    expect({ code, stdout, stderr }).toEqual({
      code: 64,
      stdout: "",
      stderr: "kit: kit inspect lock needs @kit/lock. Run: npm install @kit/lock\n",
    });
  });
});

describe("kit inspect lock on a Cluster", () => {
  it("finds the node of the lock", async () => {
    const server = await started({ mode: "cluster" });
    const lock = createLock(server.client(), { holder: "web-1" });
    onTestFinished(() => lock.close({ timeoutMs: 0 }));
    await lock.acquire("a");
    const { code, stdout } = await kit(["inspect", "lock", "a", "--url", server.url, "--keys"]);
    expect(stdout).toMatch(/holder +web-1/);
    expect(stdout).toMatch(/kit:lock:\{a\}:fence/);
    expect(code).toBe(0);
  });
});
