import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { eventually, startRedis, useRedis } from "@kit/testing";
import { aborted, describeMigration, rejection } from "@tooling/vitest/helpers";
import { Semaphore as OldSemaphore } from "redis-semaphore";
import * as vitest from "vitest";
import { afterEach, describe, expect, it, vi } from "vitest";
import { fixtureOf, name } from "./harness.js";

describeMigration(
  startRedis,
  new URL("../../../apps/docs/migration/redis-semaphore.md", import.meta.url),
  new URL("migration/", import.meta.url),
);

describe("what differs from redis-semaphore", () => {
  const redis = useRedis(vitest, { permanentKeys: ["*"] });
  const fixture = fixtureOf(redis);
  const old = (limit: number, options: ConstructorParameters<typeof OldSemaphore>[3] = {}): OldSemaphore =>
    new OldSemaphore(fixture.db, `${redis.prefix}:${name}`, limit, {
      acquireAttemptsLimit: 1,
      refreshInterval: 0,
      ...options,
    });
  const oldCount = (): Promise<number> => fixture.db.zcard(`semaphore:${redis.prefix}:${name}`);

  afterEach(() => {
    vi.restoreAllMocks();
  });

  it("lets many callers use one object at the same time", async () => {
    const shared = old(3);
    expect(await Promise.all(Array.from({ length: 10 }, () => shared.tryAcquire()))).toEqual(Array(10).fill(true));

    const semaphore = fixture.make({ permits: 3 });
    const permits = await Promise.all(Array.from({ length: 10 }, () => semaphore.tryAcquire()));
    expect(permits.filter((permit) => permit !== null)).toHaveLength(3);
  });

  it("takes no permit away when a clock is wrong", async () => {
    await old(1).acquire();
    const permit = await fixture.make({ permits: 1 }).acquire();
    const now = Date.now();
    vi.spyOn(Date, "now").mockReturnValue(now + 3_600_000);
    expect(await old(1).tryAcquire()).toBe(true);
    expect(await fixture.on(redis.connect(), { permits: 1 }).tryAcquire()).toBeNull();
    expect(await permit.release()).toBe("released");
  });

  it("does not change long permits when a caller asks for a short one", async () => {
    await old(1, { lockTimeout: 60_000 }).acquire();
    const permit = await fixture.make({ permits: 1 }).acquire({ leaseMs: 60_000 });
    const now = Date.now();
    vi.spyOn(Date, "now").mockReturnValue(now + 1_000);
    expect(await old(1, { lockTimeout: 500 }).tryAcquire()).toBe(true);
    vi.restoreAllMocks();
    expect(await rejection(fixture.make({ permits: 1 }).acquire({ leaseMs: 50, waitMs: 200 }))).toMatchObject({
      code: "KIT_SEMAPHORE_TIMEOUT",
    });
    expect(await permit.release()).toBe("released");
  });

  it("has one limit for all, whatever each one's settings are", async () => {
    await old(1).acquire();
    expect(await old(2).tryAcquire()).toBe(true);

    await fixture.make({ permits: 1 }).acquire();
    expect(await fixture.make({ permits: 2 }).tryAcquire()).toBeNull();
  });

  it("notices when a permit that is not renewed is over", async () => {
    const forgotten = old(1, { lockTimeout: 50 });
    await forgotten.acquire();
    await eventually(async () => expect(await oldCount()).toBe(0));
    expect(forgotten.isAcquired).toBe(true);

    const permit = await fixture.make({ permits: 1 }).acquire({ leaseMs: 500, renew: false });
    await aborted(permit.signal);
    expect(permit.isHeld).toBe(false);
  });

  it("throws nothing that no caller can catch, and gives up a permit that it cannot renew", async () => {
    const program = `
      import { Redis } from "ioredis";
      import { Semaphore } from "redis-semaphore";
      const redis = new Redis(process.env.REDIS_URL);
      const semaphore = new Semaphore(redis, "cut-off", 1, { refreshInterval: 50, onLockLost: () => undefined });
      await semaphore.acquire();
      redis.disconnect();
      setTimeout(() => process.exit(0), 20_000);`;
    const cwd = fileURLToPath(new URL("..", import.meta.url));
    const env = { ...process.env, REDIS_URL: redis.server.url };
    const ended = promisify(execFile)(process.execPath, ["--input-type=module", "-e", program], { cwd, env });
    expect(await rejection(ended)).toMatchObject({ code: 1, stderr: expect.stringContaining("Connection is closed") });

    const client = redis.connect();
    const permit = await fixture.on(client, { permits: 1, leaseMs: 300 }).acquire();
    client.disconnect();
    expect(await aborted(permit.signal)).toMatchObject({ code: "KIT_PERMIT_LOST", reason: "deadline" });
  });

  it("does not see the old permits, nor the other way round", async () => {
    await old(1).acquire();
    const permit = await fixture.make({ permits: 1 }).acquire();
    expect([permit.isHeld, await oldCount(), (await fixture.make({ permits: 1 }).inspect()).used]).toEqual([
      true,
      1,
      1,
    ]);
  });
});
