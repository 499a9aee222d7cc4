import { connect } from "@kit/core";
import { eventually, useRedis } from "@kit/testing";
import { commandCall, describeDescriptor, inspectCall, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { descriptor } from "../src/descriptor/index.js";
import { fixtureOf, permanentKeys, room, sendMany, untilBlocked } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
const fixture = fixtureOf(redis);

describeDescriptor(descriptor, redis);

const connection = async () => {
  const client = await connect({ url: redis.url, deadlineMs: 30_000 });
  redis.defer(() => client.close());
  return client;
};

describe("kit inspect chat", () => {
  const look = async (name: string) => {
    const [inspector] = descriptor.inspectors!;
    return await inspector!.look(inspectCall(await connection(), redis.prefix), name);
  };

  it("shows what a chat has and the positions of its members, and creates nothing if there is none", async () => {
    expect(await look(room)).toMatchObject({ data: { chat: room }, isUnknown: true });
    expect(await redis.keys()).toEqual([]);
    const chat = fixture.make();
    await chat.create(room, { members: ["ann", "bob"] });
    await sendMany(chat, "ann", 3);
    const { data, facts, table } = await look(room);
    expect(data).toMatchObject({ chat: room, head: 3, messages: 3, members: 2, slowest: 0, mailbox: null });
    expect(Object.fromEntries(facts!)).toMatchObject({
      messages: "3, last sequence 3",
      members: "2, slowest at position 0",
    });
    expect(table!.rows.toSorted(([one = ""], [other = ""]) => one.localeCompare(other))).toEqual([
      ["ann", "3", "0"],
      ["bob", "0", "3"],
    ]);
    expect(await look("other")).toMatchObject({ isUnknown: true });
  });

  it("shows when the recipient of a mailbox was last seen", async () => {
    const box = fixture.make().mailbox("box");
    await box.send({ from: "ann", body: "x" });
    await box.take();
    const { data, facts } = await look("box");
    expect(data).toMatchObject({ mailbox: { length: 1, leased: 1 } });
    expect(Object.fromEntries(facts!)["mailbox"]).toMatch(/^1 unacknowledged, 1 leased, oldest sent .* ago$/);
  });
});

describe("kit chat tail", () => {
  it("prints the last messages, then each new one until it is stopped, and acknowledges nothing", async () => {
    const chat = fixture.make();
    await chat.create(room, { members: ["ann", "bob"] });
    await sendMany(chat, "ann", 5);
    const call = commandCall(await connection(), redis.prefix, { last: 2 });
    const running = descriptor.commands![0]!.run(call, room);
    await eventually(() => expect(call.written.lines).toMatchObject([{ seq: 4, body: "m4" }, { seq: 5 }]));
    await untilBlocked(redis.server.nodes[0]!);
    await chat.send(room, { from: "bob", body: new Uint8Array([1, 2]) });
    await eventually(() => expect(call.written.lines[2]).toMatchObject({ seq: 6, from: "bob", base64: "AQI=" }));
    call.stop();
    await running;
    expect((await chat.unread("bob")).get(room)).toBe(5);
    const other = commandCall(await connection(), redis.prefix);
    expect(await rejection(descriptor.commands![0]!.run(other, "none"))).toMatchObject({ code: "KIT_CHAT_UNKNOWN" });
  });
});
