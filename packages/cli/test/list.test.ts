import { connect } from "@kit/core";
import { createLock } from "@kit/lock";
import { createSemaphore } from "@kit/semaphore";
import { startRedis } from "@kit/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { kit } from "./harness.js";

describe.each(["single", "cluster"] as const)("kit list on a %s", (mode) => {
  it("shows what is held now, a row for each, and nothing of other prefixes", async () => {
    await using server = await startRedis({ mode });
    const redis = await connect({ url: server.url, deadlineMs: 30_000 });
    onTestFinished(() => redis.close());
    const list = (...args: string[]) => kit(["list", ...args, "--url", server.url]);
    expect(await list("locks")).toEqual({ code: 0, stdout: "locks  none\n", stderr: "" });
    const lock = createLock(redis, { holder: "web-1" });
    const elsewhere = createLock(redis, { prefix: "other" });
    const tables = createSemaphore(redis, "tables", { permits: 3 });
    await Promise.all([lock.acquire("item:42"), lock.acquire("a {b}"), elsewhere.acquire("hidden"), tables.acquire()]);
    const locks = await list("locks");
    expect(locks.stdout).toMatch(
      /^locks {2}2\n\nname +holder +since +lease +waiters\n-+\na \{b\} +web-1[^]*\nitem:42 +web-1/,
    );
    const { stdout } = await list("locks", "--json");
    expect(JSON.parse(stdout)).toMatchObject({
      version: 1,
      isWhole: true,
      locks: [
        { lock: "a {b}", holder: "web-1" },
        { lock: "item:42", holder: "web-1" },
      ],
    });
    await redis.rpush("kit:lock:{odd}:lease", "x");
    const damaged = await list("locks");
    expect(damaged.stdout).toMatch(/^locks {2}3\n[^]*\nitem:42 +web-1[^]*\nodd +lock.inspect[^]* a list/);
    expect(damaged.code).toBe(0);
    expect((await list("semaphores")).stdout).toMatch(/\ntables +3, 1 in use, 2 free/);
    expect((await list("locks", "--prefix", "other")).stdout).toMatch(/\nhidden /);
    await Promise.all([lock, elsewhere, tables].map((one) => one.close({ timeoutMs: 0 })));
  });

  it("stops at a hundred, and says so", async () => {
    await using server = await startRedis({ mode });
    const redis = await connect({ url: server.url, deadlineMs: 30_000 });
    onTestFinished(() => redis.close());
    const lock = createLock(redis, { leaseMs: 600_000, renew: false });
    await Promise.all(Array.from({ length: 101 }, (_, index) => lock.acquire(`item:${String(index)}`)));
    const { stdout } = await kit(["list", "locks", "--url", server.url]);
    expect(stdout).toMatch(/^locks {2}100, and perhaps more: the search was cut short\n/);
    await lock.close({ timeoutMs: 0 });
  });
});

describe("kit list", () => {
  it("names what it can list", async () => {
    const { code, stderr, stdout } = await kit(["list"]);
    expect(code).toBe(64);
    expect(stdout + stderr).toMatch(/locks[^]*semaphores/);
  });
});
