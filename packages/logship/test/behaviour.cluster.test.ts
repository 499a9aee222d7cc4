import { Readable } from "node:stream";
import { useRedis } from "@kit/testing";
import { endMigrations, moveSlot, onMovingSlots } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import * as scripts from "../src/scripts/index.js";
import { aclBehaviour } from "./acl-behaviour.js";
import { asideBehaviour } from "./aside-behaviour.js";
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
    asideBehaviour(fixture);
    slots.itRanAll();
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
