import { connect } from "@kit/core";
import { Readable } from "node:stream";
import { appendFile } from "node:fs/promises";
import type { RedisMode, TestRedis } from "@kit/testing";
import { expectShown, grantedCommands, rejection, usedCommands } from "@tooling/vitest/helpers";
import type { Redis } from "ioredis";
import { describe, expect, it } from "vitest";
import { user } from "./acl.js";
import { countWords, type Fixture, logLines, name, textOf, writeLog } from "./harness.js";

/** That the descriptor grants what this package needs, no more; what it forbids; and that the README shows it. */
export const aclBehaviour = (redis: TestRedis<RedisMode>, fixture: Fixture): void => {
  describe("the ACL user of logship", () => {
    it("is granted the commands that jobs, shippers and receivers run, and no other", async () => {
      const { server } = redis;
      const directory = await fixture.directory();
      const path = await writeLog(directory, "a.log", logLines(0, 2_000));
      const spoilt = fixture.keysOf("spoilt").progress;
      await fixture.db.set(spoilt, "not a hash");
      // Each script is sent as a text first, whatever ran before.
      await Promise.all(server.nodes.map((node) => node.call("SCRIPT", "FLUSH")));
      await Promise.all(server.nodes.map((node) => node.call("CONFIG", "RESETSTAT")));

      const client = await connect({ url: redis.url, deadlineMs: 10_000 });
      redis.defer(() => client.close());
      const own = { client, isolate: true };
      const job = fixture.job({ directory, flushLines: 100, leaseMs: 300, ...own });
      await job.run(async (lines, results, context) => {
        await countWords(lines, results, context);
        results.set("s", "f", "v").add("a", "m").rank("r", "m");
      });
      await appendFile(path, "more\n");
      await job.run(countWords);
      await job.files();
      const shipper = fixture.shipper({
        limitBytes: 20_000,
        chunkBytes: 1_024,
        codec: "none",
        consumers: ["c"],
        ...own,
      });
      const waiting = new Promise<void>((resolve) => shipper.once("waiting", () => resolve()));
      const sending = shipper.send("a", Readable.from([textOf(logLines(0, 3_000))]));
      await waiting;
      const receiver = fixture.receiver({ flushLines: 100, ...own });
      const running = receiver.run(countWords);
      await sending;
      const controller = new AbortController();
      const cut = shipper.send("b", Readable.from([textOf(logLines(0, 3_000))]), { signal: controller.signal });
      shipper.once("progress", () => controller.abort(new Error("enough")));
      expect(await rejection(cut)).toMatchObject({ message: "enough" });
      await shipper.setLimit(50_000);
      await receiver.results("words");
      await receiver.status();
      await shipper.closeChannel();
      await receiver.close({ timeoutMs: 5_000 });
      await running.catch(() => undefined);
      const failing = fixture.job({ name: "spoilt", directory, ...own });
      expect(await rejection(failing.run(countWords))).toMatchObject({ code: "KIT_KEY_TYPE", key: spoilt });
      await Promise.all([job.close(), shipper.close(), failing.close()]);

      // Core sends PING where a connection has been silent for long.
      const used = new Set([...(await usedCommands(server.nodes)), "ping"]);
      expect([...used].toSorted()).toEqual(grantedCommands(user.grants(redis.server.mode)));
    });

    it("is sufficient for this package, and may do nothing else", async () => {
      const { prefix, server } = redis;
      const { username } = user.login;
      const setUser = (...rules: readonly string[]): Promise<unknown> =>
        Promise.all(server.nodes.map((node) => node.call("ACL", "SETUSER", username, ...rules)));
      await setUser(...user.rulesOf(server.mode, prefix), "+acl|whoami");
      redis.defer(() => Promise.all(server.nodes.map((node) => node.call("ACL", "DELUSER", username))));
      const client = redis.connect({ ...user.login }) as Redis;
      expect(await client.call("ACL", "WHOAMI")).toBe(username);
      await fixture.shipper({ client }).send("a", Readable.from(["one\n"]));
      const { channel: own } = fixture.keysOf(name);
      const verdictOf = (...command: string[]): Promise<unknown> =>
        server.nodes[0]!.call("ACL", "DRYRUN", username, ...command);
      for (const forbidden of [
        ["SET", "session:1", "admin"],
        ["GET", own.replace(":logship:", ":queue:")],
        ["FLUSHALL"],
        ["KEYS", "*"],
        ["CONFIG", "GET", "*"],
      ])
        expect([forbidden, await verdictOf(...forbidden)]).toEqual([
          forbidden,
          expect.stringMatching(/no permissions/),
        ]);
    });

    it("is shown by the README as it is", () => {
      expectShown(new URL("../README.md", import.meta.url), user);
    });
  });
};
