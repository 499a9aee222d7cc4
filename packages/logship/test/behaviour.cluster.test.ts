import { Readable } from "node:stream";
import { useRedis } from "@kit/testing";
import { endMigrations, moveSlot, onMovingSlots } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import * as scripts from "../src/scripts/index.js";
import { aclBehaviour } from "./acl-behaviour.js";
import { quarantineBehaviour } from "./quarantine-behaviour.js";
import { channelBehaviour } from "./channel-behaviour.js";
import { countWords, fixtureOf, logLines, name, textOf, wordsOf } from "./harness.js";
import { jobBehaviour } from "./job-behaviour.js";

describe("on a Cluster", () => {
  const redis = useRedis(vitest, { mode: "cluster", permanentKeys: ["*"] });
  const fixture = fixtureOf(redis);
  describe("whose slots move", () => {
    const slots = onMovingSlots(redis, scripts);
    jobBehaviour(redis, fixture);
    channelBehaviour(redis, fixture);
    quarantineBehaviour(fixture);
    const keys = () => ({
      ...fixture.keys,
      owner: fixture.keys.channel,
      source: fixture.keys.result("c", "r"),
      sending: fixture.keys.sending("c", "r"),
      pending: fixture.keys.pending("c"),
      targets: fixture.keys.result("c", "other"),
      written: fixture.keys.chunk("p"),
      unneeded: fixture.keys.chunk("p"),
    });
    const aFile = async (): Promise<void> => {
      const { channel, chunks, consumers, files, live } = keys();
      const facts = {
        state: "open",
        fence: "f",
        source: "s",
        chunks: 1,
        freed: 0,
        text: 1,
        stored: 1,
        lines: 1,
        codec: "none",
        crc: 0,
        at: 1,
      };
      await fixture.db.hset(channel, { layout: "1", epoch: "e", used: 0, reserved: 0, lastFile: 1, fence: 1 });
      await fixture.db.hset(
        files,
        Object.fromEntries(Object.entries(facts).map(([fact, value]) => [`1:${fact}`, value])),
      );
      await fixture.db.zadd(live, 1, "1");
      await fixture.db.hset(chunks, "1 0", "part 1 1 0 0 0 0");
      await fixture.db.hset(consumers, "c", "1 0 op");
      await fixture.db.hset(keys().positions, "1 c", "1 1 done 1:1:1:1 ");
    };
    const sums = async (): Promise<void> => {
      await fixture.db.hset(keys().channel, `sent ${keys().source}`, "5");
      await fixture.db.hset(keys().source, "a", "1");
      await fixture.db.hset(keys().sending, "b", "2");
    };
    const {
      advance,
      apply,
      claim,
      commit,
      discard,
      drop,
      forget,
      free,
      join,
      leave,
      look,
      open,
      progress,
      reserve,
      seal,
      status,
      take,
    } = scripts;
    const lease = async (): Promise<void> => {
      await aFile();
      await fixture.db.hset(keys().channel, { limit: 100_000 });
      await fixture.db.zadd(keys().leases, Date.now() + 60_000, "1 f");
    };
    slots.itRanAll(keys, () => [
      { script: advance, args: ["c", "1", "1", "2", "1", "done", "1:1:1:1", "", "", "[]"], seed: aFile },
      { script: commit, args: ["1", "f", 1, 100, 100, 1_000, "events", "0", "5", "p", 1, 1, 0, 0], seed: lease },
      { script: reserve, args: ["1", "f", 100, 100, 1_000], seed: lease },
      { script: leave, args: ["1 f", "events"], seed: lease },
      { script: free, args: ["events", "p"], seed: () => fixture.db.hset(keys().free, "p", 320) },
      { script: look, args: ["c", "1", "0", 10], seed: aFile },
      { script: open, args: ["s2", "", "name", "none", 100_000, "e", "events", "op", 0, 100], seed: aFile },
      { script: progress, args: ["file", "f", 1_000, "events", 0, "", "", 0, "", "[]"] },
      { script: claim, args: ["file", "", "3-ab-cd", 0, "name", "stamp", 1_000, "op", "", "", "", "", "3-ab"] },
      { script: apply, args: ["p"], seed: () => fixture.db.hset(keys().pending, "p", '[["r"],["s","1","m","0"]]') },
      { script: status, args: [0] },
      { script: forget, args: ["f"] },
      { script: seal, args: ["1", "f", "1", "", "", "-1", "events"], seed: aFile },
      { script: drop, args: ["c", "0", "0", "e"], seed: aFile },
      { script: join, args: ["d", "oldest", "e", "op"] },
      { script: take, args: ["5"], seed: sums },
      { script: discard, args: ["e", "1", "events"] },
    ]);
  });
  aclBehaviour(redis, fixture);

  it("continues when its slot moves to another node while a file is shipped and received", async () => {
    const lines = logLines(0, 20_000);
    const shipper = fixture.shipper({ limitBytes: 60_000, chunkBytes: 2_048, codec: "none", maxInFlight: 4 });
    const receiver = fixture.receiver({ flushLines: 200 });
    const begun = new Promise<void>((resolve) => receiver.once("progress", () => resolve()));
    const sending = shipper.send("a", Readable.from([textOf(lines)]));
    const running = receiver.run(countWords);
    await begun;
    const { nodes } = redis.server;
    const from = await fixture.nodeOf(name);
    const to = nodes.find((node) => node !== from)!;
    const slot = String(await from.call("CLUSTER", "KEYSLOT", fixture.keys.channel));
    const [moved] = await Promise.all([moveSlot(nodes, { slot, from, to, login: [] }), sending]);
    expect(moved).toContain(fixture.keys.channel);
    await shipper.closeChannel();
    expect((await running).lines).toBe(20_000);
    expect(await receiver.results("words")).toEqual(wordsOf(lines));
    await moveSlot(nodes, { slot, from: to, to: from, login: [] });
    await endMigrations(nodes);
  });
});
