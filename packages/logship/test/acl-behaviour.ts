import { connect } from "@kit/core";
import { Readable } from "node:stream";
import { appendFile } from "node:fs/promises";
import type { RedisMode, TestRedis } from "@kit/testing";
import { describeUser, expectGranted, grantedCommands, rejection, usedCommands } from "@tooling/vitest/helpers";
import { describe, expect, it } from "vitest";
import { user } from "./acl.js";
import { countWords, type Fixture, logLines, name, textOf, writeLog } from "./harness.js";

/** The descriptor grants what this package needs and no more, and the README shows it. */
export const aclBehaviour = (redis: TestRedis<RedisMode>, fixture: Fixture): void => {
  describe("the ACL user of logship", () => {
    it("is granted the commands that jobs, shippers and receivers run, and no other", async () => {
      const { server } = redis;
      const directory = await fixture.directory();
      const path = await writeLog(directory, "a.log", logLines(0, 2_000));
      const spoilt = fixture.keysOf("spoilt").progress;
      await fixture.db.set(spoilt, "not a hash");
      // Each script is sent as text at first, whatever ran before.
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
      expectGranted([...used].toSorted(), grantedCommands(user.grants(redis.server.mode)));
    });

    describeUser(user, redis, new URL("../docs/operations.md", import.meta.url), async (client) => {
      await fixture.shipper({ client }).send("a", Readable.from(["one\n"]));
      return fixture.keysOf(name).channel;
    });
  });
};
