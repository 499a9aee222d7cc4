import { readFileSync } from "node:fs";
import { connect } from "@kit/core";
import { eventually, type RedisMode, useRedis } from "@kit/testing";
import type { Redis } from "ioredis";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { createLock } from "../src/index.js";
import { app, grants, rulesOf } from "./acl.js";
import { benchOf, enqueue, rejection } from "./harness.js";

/** That `acl.txt` is what the lock needs, no more; what it forbids; and that the README shows it. */
export const aclBehaviour = (mode: RedisMode): void => {
  describe(`the ACL user of a lock on a ${mode === "cluster" ? "Cluster" : "single server"}`, () => {
    const redis = useRedis(vitest, { mode });
    const bench = benchOf(redis);
    const name = "chest";

    it("is granted the commands that a lock runs, and no other", async () => {
      const { prefix, server } = redis;
      const spoilt = bench.keysOf("spoilt").lease;
      await bench.db.rpush(spoilt, "not a lease");
      await bench.db.pexpire(spoilt, 60_000);
      await Promise.all(server.nodes.map((node) => node.call("CONFIG", "RESETSTAT")));

      const client = await connect({ url: redis.url, deadlineMs: 10_000 });
      const lock = createLock(client, { prefix, isolate: true });
      redis.defer(async () => {
        await lock.close({ timeoutMs: 0 });
        await client.close();
      });
      // Free; queued and handed on; left by a waiter; looked at; taken by force; renewed; run out.
      const first = await lock.acquire(name, { leaseMs: 300, renew: false });
      const second = await enqueue(lock, name);
      const third = await enqueue(lock, name, { waitMs: 600 });
      expect(await first.release()).toBe("released");
      await (await second.promise).extend();
      expect(await rejection(third.promise)).toMatchObject({ code: "KIT_LOCK_TIMEOUT" });
      await lock.forceRelease(name);
      await lock.acquire(name, { leaseMs: 300, renew: false });
      const fourth = await enqueue(lock, name);
      await (await fourth.promise).release();
      // A waiter whose process died.
      const fifth = await lock.acquire(name);
      const peer = await bench.spawn();
      peer.acquire(name).catch(() => undefined);
      await eventually(async () => expect((await lock.inspect(name)).waiters).toBe(1));
      await peer.kill();
      await fifth.release();
      expect(await rejection(lock.tryAcquire("spoilt"))).toMatchObject({ code: "KIT_KEY_TYPE", key: spoilt });
      await lock.close();

      const stats = await Promise.all(server.nodes.map((node) => node.call("INFO", "commandstats")));
      const used = new Set(
        stats.flatMap((text) =>
          [...String(text).matchAll(/^cmdstat_(\S+):calls=[1-9]/gm)].map(([, command]) => command!),
        ),
      );
      used.delete("config|resetstat");
      // Logging in needs no grant. From Redis 7.2 on ioredis tells its version, and does not mind being refused.
      for (const command of ["auth", "hello", "client|setinfo"]) used.delete(command);
      expect([...used].toSorted()).toEqual(
        grants(mode)
          .filter((grant) => grant.startsWith("+"))
          .map((grant) => grant.slice(1))
          .toSorted(),
      );
    });

    it("is who the lock works as, and may do nothing else", async () => {
      const { prefix, server } = redis;
      const setUser = (...rules: readonly string[]): Promise<unknown> =>
        Promise.all(server.nodes.map((node) => node.call("ACL", "SETUSER", app.username, ...rules)));
      await setUser(...rulesOf(mode, prefix), "+acl|whoami");
      redis.defer(() => Promise.all(server.nodes.map((node) => node.call("ACL", "DELUSER", app.username))));
      const client = redis.connect({ ...app }) as Redis;
      expect(await client.call("ACL", "WHOAMI")).toBe(app.username);
      const lock = bench.on(client);
      const lease = await lock.acquire(name);

      const node = await bench.nodeOf(name);
      const { lease: own } = bench.keysOf(name);
      const verdictOf = (command: readonly string[]): Promise<unknown> =>
        node.call("ACL", "DRYRUN", app.username, ...command);
      for (const allowed of [
        ["GET", own],
        ["PUBLISH", `${prefix}:inbox:x`, "m"],
        ["SUBSCRIBE", `${prefix}:inbox:x`],
      ])
        expect([allowed, await verdictOf(allowed)]).toEqual([allowed, "OK"]);
      for (const forbidden of [
        ["GET", `${prefix}:queue:{mail}:waiting`],
        ["GET", `other:${own}`],
        ["SET", "session:1", "admin"],
        ["DEL", own, "foreign"],
        ["PUBLISH", `${prefix}:chat`, "m"],
        ["SUBSCRIBE", "other:inbox:x"],
        ["PSUBSCRIBE", "*"],
        ["KEYS", "*"],
        ["SCAN", "0"],
        ["FLUSHALL"],
        ["FLUSHDB"],
        ["CONFIG", "GET", "*"],
        ["CONFIG", "SET", "dir", "/"],
        ["SCRIPT", "FLUSH"],
        ["SCRIPT", "KILL"],
        ["CLIENT", "KILL", "TYPE", "normal"],
        ["CLIENT", "LIST"],
        ["ACL", "LIST"],
        ["MONITOR"],
        ["DEBUG", "SLEEP", "1"],
        ["SHUTDOWN"],
        ["REPLICAOF", "NO", "ONE"],
        ["MODULE", "LIST"],
        ["MIGRATE", "127.0.0.1", "1", own, "0", "1"],
        ["FUNCTION", "LIST"],
        ["RENAME", own, own],
      ])
        expect([forbidden, await verdictOf(forbidden)]).toEqual([
          forbidden,
          expect.stringMatching(/has no permissions|no permissions to (access|run)/),
        ]);

      // Inside a script the same holds, also for keys that were not declared.
      for (const [call, refusal] of [
        [`redis.call('GET', '${own.replace(":lock:", ":queue:")}')`, /can't access at least one of the keys/],
        ["redis.call('FLUSHALL')", /can't run this command/],
        ["redis.call('CONFIG', 'GET', 'requirepass')", /can't run this command|not allowed from script/],
        ["redis.call('LPUSH', KEYS[1], 'x')", /can't run this command/],
        [`redis.call('PUBLISH', '${prefix}:chat', 'x')`, /can't publish|can't access at least one of the/],
      ] as const)
        await expect(client.eval(`return ${call}`, 1, own)).rejects.toThrow(refusal);
      expect(await lease.release()).toBe("released");
    });

    it("is shown by the README as it is", () => {
      const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");
      const [, rules = ""] = /^## ACL\n.*?^```\n(.*?)^```$/ms.exec(readme) ?? [];
      const single = grants("single");
      const shown = rules.split(/\s+/).filter((word) => /^[~&+]/.test(word));
      // The Cluster's own are the last row.
      expect(shown.slice(0, single.length)).toEqual(single);
      expect(shown).toEqual(grants("cluster"));
    });
  });
};
