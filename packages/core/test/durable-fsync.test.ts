import { useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { beforeEach, describe, expect, it } from "vitest";
import {
  durable,
  type DurabilityOptions,
  type DurableScope,
  persistenceReport,
  waitForSync,
} from "../src/durable/index.js";
import { distrust } from "../src/durable/trust.js";
import { own } from "./harness.js";

const redis = useRedis(vitest, { replicas: 1, permanentKeys: ["*"] });

const options = (more: Partial<DurabilityOptions> = {}): DurabilityOptions => ({
  key: redis.prefix,
  replicas: 0,
  fsync: "local",
  timeoutMs: 300,
  ...more,
});
const write = (scope: DurableScope): Promise<unknown> => scope.call("SET", redis.prefix, "x", "PX", 60_000);

/** Settings of the master's append-only file, set back after the test. */
const set = async (settings: Record<string, string>): Promise<void> => {
  const { server } = redis;
  for (const [name, value] of Object.entries(settings)) {
    const [, before = ""] = (await server.call("CONFIG", "GET", name)) as string[];
    await server.call("CONFIG", "SET", name, value);
    redis.defer(() => server.call("CONFIG", "SET", name, before));
  }
};

/** Also the first writing of the file is over. */
const written = (): Promise<void> =>
  vitest.vi.waitFor(
    async () => {
      const info = String(await redis.server.call("INFO", "persistence"));
      expect(info).toMatch(/aof_rewrite_in_progress:0/);
      expect(info).toMatch(/aof_rewrite_scheduled:0/);
      expect(info).not.toMatch(/aof_last_rewrite_time_sec:-1/);
    },
    { timeout: 10_000, interval: 20 },
  );

const untrusted = (): string | undefined => {
  const { server, version } = redis.server.version;
  return distrust(server, version);
};

describe("durable to the disk", () => {
  it("is short without an append-only file", async () => {
    const result = await durable(redis.client, options(), write);
    expect(result).toMatchObject({ outcome: "short", fsync: { local: false, replicas: 0 } });
    expect(result.why).toContain("appendonly is off");
  });

  describe("with an append-only file", () => {
    beforeEach(async () => {
      await set({ appendonly: "yes", appendfsync: "everysec" });
      await written();
    });

    it("believes a WAITAOF that is known to be honest, and else says why it is unknown", async () => {
      const result = await durable(redis.client, options({ timeoutMs: 3_000 }), write);
      const reason = untrusted();
      const local = reason === undefined;
      expect(result).toMatchObject({
        outcome: local ? "safe" : "unknown",
        fsync: { local },
        why: reason && `appendfsync is everysec, and ${reason}`,
      });
    });

    it("is safe with appendfsync always, without asking anything else", async () => {
      await set({ appendfsync: "always" });
      expect(await durable(redis.client, options(), write)).toEqual({
        value: "OK",
        outcome: "safe",
        replicas: 0,
        fsync: { local: true, replicas: 0 },
        why: undefined,
      });
      const both = await durable(redis.client, options({ replicas: 1, timeoutMs: 3_000 }), write);
      expect(both).toMatchObject({ outcome: "safe", replicas: 1, fsync: { local: true } });
      expect(await waitForSync(redis.client, options())).toMatchObject({ outcome: "safe" });
    });

    it("is short, with the disk's part, when the replicas are missing", async () => {
      await set({ appendfsync: "always" });
      const result = await durable(redis.client, options({ replicas: 2 }), write);
      expect(result).toMatchObject({ outcome: "short", replicas: 1, fsync: { local: true } });
    });

    it("does not take always for always where syncs pause during a rewrite", async () => {
      await set({ appendfsync: "always", "no-appendfsync-on-rewrite": "yes" });
      const result = await durable(redis.client, options({ timeoutMs: 3_000 }), write);
      expect(result.outcome).toBe(untrusted() === undefined ? "safe" : "unknown");
      expect(result.why ?? "").toMatch(untrusted() === undefined ? /^$/ : /may pause during a rewrite of the file/);
    });

    it("is not safe while the file is rewritten after it was off: nothing distinguishes that from any other rewrite", async () => {
      const { server } = redis;
      await set({ appendfsync: "always", "rdb-key-save-delay": "100000" });
      await server.call("EVAL", "for i = 1, 300 do redis.call('SET', 'k' .. i, '', 'PX', 60000) end", "0");
      await server.call("CONFIG", "SET", "appendonly", "no");
      await server.call("CONFIG", "SET", "appendonly", "yes");
      const result = await durable(redis.client, options(), write);
      // A kill of the server would lose the write now: the file is that from before it was switched off.
      expect(String(await server.call("INFO", "persistence"))).toMatch(/aof_rewrite_in_progress:1/);
      expect(result.outcome).not.toBe("safe");
      const row = (await persistenceReport(redis.client)).find(({ role }) => role === "master");
      expect(row?.atRisk?.kill).toMatchObject({
        changes: undefined,
        text: expect.stringContaining("all changes, if the file was off before"),
      });
    });

    it("is unknown when the settings were changed meanwhile, either way", async () => {
      await set({ appendfsync: "always" });
      const { server } = redis;
      const result = await durable(redis.client, options(), async (scope) => {
        await write(scope);
        await server.call("CONFIG", "SET", "appendfsync", "everysec");
      });
      expect(result).toMatchObject({ outcome: "unknown", fsync: { local: false } });
      expect(result.why).toContain("changed meanwhile");
      const late = await durable(redis.client, options({ timeoutMs: 3_000 }), async (scope) => {
        await write(scope);
        await server.call("CONFIG", "SET", "appendfsync", "always");
      });
      expect(late.outcome).toBe(untrusted() === undefined ? "safe" : "unknown");
    });

    it("is never safe where CONFIG is forbidden, unless the server itself can be asked", async () => {
      await set({ appendfsync: "always" });
      await redis.server.call("ACL", "SETUSER", "blind", "on", ">secret", "~*", "&*", "+@all", "-config");
      redis.defer(() => redis.server.call("ACL", "DELUSER", "blind"));
      const client = await own(redis, { options: { username: "blind", password: "secret" } });
      const result = await durable(client, options(), write);
      expect(result.outcome).toBe(untrusted() === undefined ? "safe" : "unknown");
      expect(result.why ?? "").toMatch(untrusted() === undefined ? /^$/ : /CONFIG GET is forbidden/);
    });

    it("asks for the disks of replicas only a server that is known to be honest", async () => {
      await set({ appendfsync: "always" });
      const result = await durable(redis.client, options({ replicas: 1, fsync: "replicas" }), write);
      expect(result).toMatchObject({ replicas: 1, fsync: { local: true, replicas: 0 } });
      expect(result.outcome).toBe(untrusted() === undefined ? "short" : "unknown");
    });
  });

  it.each([
    ["redis", "6.2.14", "has no WAITAOF"],
    ["redis", "7.0.15", "has no WAITAOF"],
    ["redis", "7.2.5", "trusted"],
    ["redis", "7.4.2", "#13793"],
    ["redis", "8.0.2", "trusted"],
    ["redis", "8.6.3", "trusted"],
    ["valkey", "7.2.8", "#13793"],
    ["valkey", "8.0.1", "#13793"],
    ["valkey", "9.1.2", "#13793"],
    ["redis", "255.255.255", "trusted"],
    ["redis", "", "unknown"],
  ] as const)("trusts the WAITAOF of %s %s as far as it is known (%s)", (server, version, reason) => {
    expect(distrust(server, version) ?? "trusted").toContain(reason);
  });
});
