import { connect } from "@kit/core";
import { useRedis } from "@kit/testing";
import {
  describeUser,
  expectGranted,
  grantedCommands,
  inModes,
  rejection,
  usedCommands,
} from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { user } from "./acl.js";
import { fixtureOf, permanentKeys, room, sendMany } from "./harness.js";

/** The descriptor grants what a chat needs and no more, and docs/operations.md shows it. */
inModes({}, (mode) => {
  describe(`the ACL user of a chat on a ${mode === "cluster" ? "Cluster" : "single server"}`, () => {
    const redis = useRedis(vitest, { mode, permanentKeys });
    const fixture = fixtureOf(redis);

    it("is granted the commands that a chat runs, and no other", async () => {
      const { server } = redis;
      const spoilt = fixture.keysOf("spoilt");
      await fixture.db.rpush(spoilt.positions, "not a position");
      await fixture.db.pexpire(spoilt.positions, 60_000);
      await Promise.all(server.nodes.map((node) => node.call("CONFIG", "RESETSTAT")));

      const client = await connect({ url: redis.url, deadlineMs: 10_000 });
      redis.defer(() => client.close());
      const chat = fixture.on(client, { isolate: true });
      const retain = { count: 100, bytes: 10_000, ageMs: 600_000, readByAll: true };
      await chat.create(room, {
        members: ["ann", "bob"],
        retain,
        maxBodyBytes: 1_000,
        lag: { messages: 1_000 },
        dedupeMs: 1_000,
      });
      await sendMany(chat, "ann", 150);
      // A lost head, and then both that and the messages.
      const { heads, messages } = fixture.keysOf(room);
      await fixture.db.hdel(heads, room);
      await sendMany(chat, "ann", 1);
      await fixture.db.hdel(heads, room);
      await fixture.db.unlink(messages);
      await sendMany(chat, "ann", 1);
      const { token } = await chat.fetch("bob");
      await chat.fetch("bob", { token });
      const waiting = chat.wait("bob", { token });
      await sendMany(chat, "ann", 1);
      await waiting;
      await chat.ack("bob", { chat: room, seq: 150 });
      await chat.join(room, "carl", { history: 3 });
      await chat.history(room, { around: 120, member: "carl" });
      await chat.unread("bob");
      await chat.members(room);
      await chat.inspect(room);
      const box = chat.mailbox("box");
      await box.send({ from: "ann", body: "x" });
      await (await box.take())[0]?.ack();
      await box.stats();
      await chat.leave(room, "carl");
      await chat.delete(room);
      expect(await rejection(chat.create("spoilt", { members: ["ann"] }))).toMatchObject({
        code: "KIT_KEY_TYPE",
        key: spoilt.positions,
      });
      await chat.close();

      expectGranted(await usedCommands(server.nodes), grantedCommands(user.grants(mode)));
    });

    describeUser(user, redis, new URL("../docs/operations.md", import.meta.url), async (client) => {
      const chat = fixture.on(client);
      await chat.create(room, { members: ["ann"] });
      expect(await chat.send(room, { from: "ann", body: "x" })).toMatchObject({ seq: 1 });
      return fixture.keysOf(room).meta;
    });
  });
});
