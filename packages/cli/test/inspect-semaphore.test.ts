import { createSemaphore, type Semaphore, type SemaphoreOptions } from "@kit/semaphore";
import { eventually, startRedis, type RedisServer } from "@kit/testing";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { kit, programBeside, started } from "./harness.js";

describe("kit inspect semaphore", () => {
  let server: RedisServer;

  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server.stop());

  const make = (name: string, options: SemaphoreOptions): Semaphore => {
    const semaphore = createSemaphore(server.client(), name, options);
    onTestFinished(() => semaphore.close({ timeoutMs: 0 }));
    return semaphore;
  };
  const inspect = (name: string, ...args: string[]) =>
    kit(["inspect", "semaphore", name, "--url", server.url, ...args]);
  const inspectJson = async (name: string, ...args: string[]): Promise<Record<string, unknown>> => {
    const { stdout } = await inspect(name, "--json", ...args);
    return JSON.parse(stdout) as Record<string, unknown>;
  };

  it("says that no limits are stored", async () => {
    expect(await inspect("nobody's", "--keys")).toEqual({
      code: 1,
      stdout:
        "semaphore  nobody's\n" +
        "permits    none stored: not used for a week. The next use sets them\n" +
        "holder     none\n" +
        "waiters    none\n" +
        "key        none\n",
      stderr: "",
    });
    expect(await inspectJson("nobody's")).toEqual({
      version: 1,
      url: server.url,
      semaphore: "nobody's",
      permits: null,
      permitsPerTenant: null,
      used: 0,
      free: null,
      holders: [],
      waiters: 0,
      queue: [],
      isUnknown: true,
    });
  });

  it("says the limits, who holds how much until when, and who waits", async () => {
    // A renewal would put the first holder behind the second.
    const semaphore = make("models:8", { permits: 8, leaseMs: 600_000, holder: "web-1" });
    await semaphore.acquire({ weight: 5 });
    await semaphore.acquire({ holder: "web-2" });
    const waiting = semaphore.acquire({ holder: "web-3", weight: 4 });
    waiting.catch(() => undefined);
    await eventually(async () => expect((await semaphore.inspect()).waiters).toBe(1));
    const { stdout, code } = await inspect("models:8", "--keys");
    expect(stdout).toMatch(
      /^semaphore +models:8\npermits +8, 6 in use, 2 free\nholder +web-1 \(weight 5\), expires in 10 min unless renewed\nholder +web-2, expires in 10 min unless renewed\nwaiters +1: web-3 \(weight 4\)\nkey +kit:semaphore:\{models%3A8\}:permits/,
    );
    expect(code).toBe(0);
    const report = await inspectJson("models:8", "--keys");
    expect(report).toMatchObject({
      permits: 8,
      permitsPerTenant: null,
      used: 6,
      free: 2,
      holders: [
        { holder: "web-1", weight: 5, tenant: null },
        { holder: "web-2", weight: 1, tenant: null },
      ],
      waiters: 1,
      queue: [{ holder: "web-3", weight: 4, tenant: null }],
    });
    expect((report["keys"] as { type: string }[]).map(({ type }) => type)).toEqual([
      "zset",
      "hash",
      "zset",
      "zset",
      "hash",
    ]);
  });

  it("names the tenants of a group, and what each may have", async () => {
    const sessions = make("sessions", { permits: 100, permitsPerTenant: 5, holder: "web-1" });
    await sessions.acquire({ tenant: "ann", weight: 2 });
    const { stdout } = await inspect("sessions");
    expect(stdout).toMatch(/tenants +up to 5 permits each\nholder +web-1 \(weight 2, tenant ann\), expires/);
    expect(await inspectJson("sessions")).toMatchObject({ permitsPerTenant: 5, holders: [{ tenant: "ann" }] });
  });

  it("shows one tenant alone", async () => {
    const sessions = make("tenants", { permits: 7, permitsPerTenant: 5, holder: "web-1" });
    for (let device = 0; device < 3; device++) await sessions.acquire({ tenant: "ann" });
    for (let device = 0; device < 3; device++) await sessions.acquire({ tenant: "bob/ü" });
    const { stdout } = await inspect("tenants", "--tenant", "bob/ü");
    expect(stdout).toMatch(
      /^semaphore +tenants\ntenant +bob\/ü\npermits +5, 3 in use, 1 of all 7 permits free\n(holder +web-1 \(tenant bob\/ü\), expires in .*\n){3}waiters +none\n$/,
    );
    expect(await inspectJson("tenants", "--tenant", "ann")).toMatchObject({
      tenant: "ann",
      permits: 7,
      permitsPerTenant: 5,
      used: 3,
      free: 1,
      holders: [{ tenant: "ann" }, { tenant: "ann" }, { tenant: "ann" }],
    });
    expect(await inspectJson("unused", "--tenant", "ann")).toMatchObject({
      permits: null,
      permitsPerTenant: null,
      free: null,
    });
    expect(await inspect("tenants", "--tenant", "")).toMatchObject({ code: 64, stdout: "" });
    await make("plain", { permits: 2 }).acquire();
    const { stdout: ofPlain } = await inspect("plain", "--tenant", "ann");
    expect(ofPlain).toContain("no tenant limit, 0 in use, 1 of all 2 permits free\n");
  });

  it("shows the ten that end first, and counts the others", async () => {
    const semaphore = make("many", { permits: 20 });
    await Promise.all(Array.from({ length: 13 }, () => semaphore.acquire()));
    const { stdout } = await inspect("many");
    expect(stdout.match(/^holder .* expires in/gm)).toHaveLength(10);
    expect(stdout).toMatch(/^holder +others with 3 permits, which expire later$/m);
  });

  it("says why there are no grants: a limit that was lowered, and a pause", async () => {
    const semaphore = make("lowered", { permits: 3 });
    await Promise.all([semaphore.acquire(), semaphore.acquire(), semaphore.acquire()]);
    await semaphore.setPermits(2);
    expect((await inspect("lowered")).stdout).toMatch(
      /permits +2, 3 in use: no grants until enough permits are released/,
    );
    await make("paused", { permits: 0 }).tryAcquire();
    expect((await inspect("paused")).stdout).toMatch(/permits +0, 0 in use: no grants\n/);
  });

  it("looks under the given prefix", async () => {
    await make("a", { permits: 2, prefix: "shop", holder: "till" }).acquire();
    expect((await inspect("a", "--prefix", "shop")).stdout).toMatch(/holder +till/);
    expect((await inspect("a")).stdout).toMatch(/none stored/);
  });

  it("changes nothing", async () => {
    const redis = server.client();
    const key = "kit:semaphore:{same}:permits";
    await redis.zadd(key, 1, "token|1||web-1");
    await redis.pexpireat(key, 4_000_000_000_000);
    await inspect("same", "--keys");
    expect(await redis.zrange(key, "0", "-1", "WITHSCORES")).toHaveLength(2);
    expect(await redis.pttl(key)).toBeGreaterThan(1e12);
    expect(await redis.keys("kit:semaphore:{same}:*")).toEqual([key]);
  });

  it("exits 2 when a key holds something else", async () => {
    await server.client().lpush("kit:semaphore:{list}:meta", "x");
    const { code, stdout, stderr } = await inspect("list");
    expect(stderr).toMatch(/^kit: .*kit:semaphore:\{list\}:meta/);
    expect(stdout).toBe("");
    expect(code).toBe(2);
  });

  it("exits 3 without a server, and 64 for a name that cannot be one", async () => {
    const gone = await started();
    await gone.stop();
    const { code, stderr } = await kit(["inspect", "semaphore", "a", "--url", gone.url]);
    expect(stderr).toMatch(/^kit: Cannot reach Redis at 127\.0\.0\.1/);
    expect(code).toBe(3);
    expect((await inspect("")).code).toBe(64);
    expect((await inspect("x".repeat(513))).code).toBe(64);
  });

  it("says in one sentence that @kit/semaphore is not installed", async () => {
    const { code, stdout, stderr } = await kit(["inspect", "semaphore", "a", "--url", server.url], {
      program: programBeside(),
    });
    expect({ code, stdout, stderr }).toEqual({
      code: 64,
      stdout: "",
      stderr: "kit: kit inspect semaphore needs @kit/semaphore. Run: npm install @kit/semaphore\n",
    });
  });
});

describe("kit inspect semaphore on a Cluster", () => {
  it("finds the node of the semaphore", async () => {
    const server = await started({ mode: "cluster" });
    const semaphore = createSemaphore(server.client(), "a", { permits: 2, holder: "web-1" });
    onTestFinished(() => semaphore.close({ timeoutMs: 0 }));
    await semaphore.acquire();
    const { code, stdout } = await kit(["inspect", "semaphore", "a", "--url", server.url, "--keys"]);
    expect(stdout).toMatch(/permits +2, 1 in use, 1 free\nholder +web-1/);
    expect(stdout).toMatch(/kit:semaphore:\{a\}:meta/);
    expect(code).toBe(0);
  });
});
