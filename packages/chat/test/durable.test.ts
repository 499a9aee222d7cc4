import { useRedis } from "@kit/testing";
import { rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { fixtureOf, permanentKeys, room } from "./harness.js";

describe("a durable message", () => {
  const redis = useRedis(vitest, { permanentKeys, persistence: "always" });
  const fixture = fixtureOf(redis);

  it("reports the outcome of its copies, even when it is sent again", async () => {
    const chat = fixture.make();
    await chat.create(room, { members: ["ann", "bob"] });
    const send = (durable: object) => chat.send(room, { from: "ann", body: "x", clientId: "m", durable });
    // There is no replica here.
    const short = await send({ replicas: 1, timeoutMs: 20 });
    expect(short).toMatchObject({ seq: 1, duplicate: false, durability: { outcome: "short", replicas: 0 } });
    const safe = await send({ replicas: 0, fsync: "local" });
    expect(safe).toMatchObject({ seq: 1, duplicate: true, durability: { outcome: "safe", fsync: { local: true } } });
    const options = { from: "eve", body: "x", durable: { replicas: 0, fsync: "local" } } as const;
    expect(await rejection(chat.send(room, options))).toMatchObject({ code: "KIT_CHAT_NOT_MEMBER" });
    expect((await chat.inspect(room)).head).toBe(1);
  });
});
