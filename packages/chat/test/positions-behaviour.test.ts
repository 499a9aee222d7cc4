import { eventually, useRedis } from "@kit/testing";
import { callsOf, guardUsers, inModes, onMovingSlots, watched } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { Chat, CreateOptions } from "../src/index.js";
import * as scripts from "../src/scripts/index.js";
import { user } from "./acl.js";
import { type ChatFixture, fixtureOf, permanentKeys, room, sendMany, untilBlocked } from "./harness.js";

const positions = true;

/** How readers receive positions that move, on one server or on a Cluster; with a `login`, as that user. */
inModes({ single: user.loginForText }, (mode, login) => {
  describe(`positions on a ${mode === "cluster" ? "Cluster" : "single server"}${login ? ", as its ACL user" : ""}`, () => {
    const redis = useRedis(vitest, { mode, args: login ? user.serverArgs(mode) : [], permanentKeys });
    if (login) guardUsers(redis);
    const slots = onMovingSlots(redis, scripts);
    let lazyFixture: ChatFixture | undefined;
    const fixture = (): ChatFixture => (lazyFixture ??= fixtureOf(redis, login));
    /** A device: an object and a connection of its own. */
    const device = (): Chat => fixture().on(fixture().connect());
    /** A chat with two messages of ann. */
    const furnish = async (options: CreateOptions = {}, name = room): Promise<void> => {
      const chat = fixture().make();
      await chat.create(name, { members: ["ann", "bob"], ...options });
      await sendMany(chat, "ann", 2, name);
    };
    const first = { chat: room, seq: 1 };
    const moved = (position: number, member = "bob", chat = room) => ({ chat, member, position });
    /** As if nobody had asked for positions for 30 s. */
    const forget = async (): Promise<void> => {
      const { heads } = fixture().keysOf(room);
      if ((await fixture().db.hexists(heads, "")) === 1) await fixture().db.hset(heads, "", Date.now() - 1);
    };

    it("reach the member's other devices, each once, and wake those that wait for them", async () => {
      await furnish();
      const [phone, desk] = [device(), device()];
      const begun = await phone.fetch("bob", { positions });
      expect(begun.positions).toEqual([]);
      const waiting = phone.wait("bob", { token: begun.token, positions });
      await untilBlocked(await fixture().nodeOf(room));
      await desk.ack("bob", first);
      expect(await waiting).toBe(true);
      // Between two looks, too.
      await desk.ack("bob", { chat: room, seq: 2 });
      expect(await phone.wait("bob", { token: begun.token, positions })).toBe(true);
      const page = await phone.fetch("bob", { token: begun.token, positions });
      expect(page).toMatchObject({ chats: [], left: [], positions: [moved(1), moved(2)] });
      await desk.ack("bob", first);
      expect(await phone.wait("bob", { token: page.token, positions, waitMs: 0 })).toBe(false);
      expect((await phone.fetch("bob", { token: page.token, positions })).positions).toEqual([]);
    });

    it("reach no other member, and no reader without a subscription", async () => {
      await furnish();
      const [phone, desk] = [device(), device()];
      const { token } = await phone.fetch("bob", { positions });
      const ofAnn = await phone.fetch("ann", { positions });
      const waits = [
        watched(phone.wait("bob", { token })),
        watched(phone.wait("ann", { token: ofAnn.token, positions })),
      ];
      const woken = phone.wait("bob", { token, positions });
      await untilBlocked(await fixture().nodeOf(room));
      await desk.ack("bob", first);
      expect(await woken).toBe(true);
      expect(await phone.wait("bob", { token, waitMs: 0 })).toBe(false);
      expect(await phone.fetch("bob", { token })).toMatchObject({ chats: [], positions: [] });
      expect((await phone.fetch("ann", { token: ofAnn.token, positions })).positions).toEqual([]);
      expect(waits.map(({ isSettled }) => isSettled)).toEqual([false, false]);
      await sendMany(desk, "ann", 1);
      expect(await Promise.all(waits.map(({ promise }) => promise))).toEqual([true, true]);
    });

    it("reach the other members of a chat with receipts, but not those that joined later", async () => {
      await furnish({ receipts: true });
      await furnish({}, "without");
      const desk = device();
      const { token } = await desk.fetch("ann", { positions });
      const waiting = desk.wait("ann", { token, positions });
      await untilBlocked(await fixture().nodeOf(room));
      await desk.ack("bob", [first, { chat: "without", seq: 1 }]);
      expect(await waiting).toBe(true);
      expect((await desk.fetch("ann", { token, positions })).positions).toEqual([moved(1)]);
      const ofCid = await desk.fetch("cid", { positions });
      await desk.join(room, "cid");
      expect((await desk.fetch("cid", { token: ofCid.token, positions })).positions).toEqual([]);
      // Nor are they of a chat that has taken the name of another one.
      await desk.delete(room);
      await furnish({ receipts: true });
      expect((await desk.fetch("ann", { token, positions })).positions).toEqual([]);
    });

    it("are an event of the object whose listener the member has", async () => {
      await furnish({ receipts: true });
      const [phone, desk] = [device(), device()];
      const events: unknown[] = [];
      phone.on("position", (event) => events.push(event));
      const end = new AbortController();
      const listeners = ["ann", "bob"].map((member) =>
        phone
          .listen(member, { positions, signal: end.signal })
          .each(() => undefined)
          .catch(() => undefined),
      );
      const withoutPositions = phone.listen("bob", { signal: end.signal }).each(() => undefined);
      // Their own acknowledgements are announced, too.
      await eventually(() => expect(events).toContainEqual({ ...moved(2), to: "bob" }));
      await eventually(() => expect(events).toContainEqual({ ...moved(2), to: "ann" }));
      const seen = events.length;
      await desk.send(room, { from: "ann", body: "three" });
      await eventually(() => expect(events.slice(seen)).toContainEqual({ ...moved(3), to: "ann" }));
      expect(events.every((event) => ["ann", "bob"].includes((event as { to: string }).to))).toBe(true);
      end.abort();
      await Promise.all([...listeners, withoutPositions.catch(() => undefined)]);
    });

    it("cost no command without a subscriber, and one for each moved position with one", async () => {
      await furnish({ receipts: true });
      const desk = device();
      const node = await fixture().nodeOf(room);
      const inside = ["evalsha", "time", "zrem", "hget", "hmget", "hset", "zadd", "xadd", "xlen"];
      const counts = async (): Promise<number[]> => await Promise.all(inside.map((command) => callsOf(node, command)));
      /** The commands of one acknowledgement. */
      const costOf = async (seq: number): Promise<Record<string, number>> => {
        const before = await counts();
        await desk.ack("bob", { chat: room, seq });
        const after = await counts();
        return Object.fromEntries(inside.map((command, index) => [command, after[index]! - before[index]!]));
      };
      await desk.ack("bob", { chat: room, seq: 0 });
      const alone = await costOf(1);
      expect(alone).toMatchObject({ evalsha: 1, hmget: 2, hget: 1, hset: 1, xadd: 0 });
      await desk.fetch("ann", { positions });
      expect(await costOf(2)).toEqual({ ...alone, xadd: 1 });
      await sendMany(desk, "ann", 1);
      await forget();
      expect(await costOf(3)).toEqual(alone);
    });

    it("leave no key after the last chat", async () => {
      await furnish();
      await furnish({}, "other");
      const desk = device();
      await desk.fetch("bob", { positions });
      const { heads } = fixture().keysOf(room);
      expect(await fixture().db.hexists(heads, "")).toBe(1);
      await desk.delete(room);
      await desk.delete(room);
      await desk.delete("other");
      expect(await fixture().keysLeft()).toEqual([]);
    });

    if (mode === "cluster") slots.itRan(["chat.ack", "chat.changes", "chat.subscribe"]);
  });
});
