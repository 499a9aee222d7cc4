import { slotOf } from "@kit/core/toolkit";
import { useRedis } from "@kit/testing";
import { endMigrations, moveSlot, onMovingSlots, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import * as scripts from "../src/scripts/index.js";
import { allowedOf, fixtureOf, hourMs, key, permanentKeys } from "./harness.js";

const redis = useRedis(vitest, { mode: "cluster", permanentKeys });
const fixture = fixtureOf(redis);

describe("a limiter whose slot moves", () => {
  it("allows exactly its limits, before, during and after the move, there and back", async () => {
    const limits = { own: { count: 50, perMs: hourMs }, total: { count: 60, perMs: hourMs, shared: true } };
    const objects = [
      fixture.make(limits, { deadlineMs: 30_000 }),
      fixture.on(redis.connect(), limits, { deadlineMs: 30_000 }),
    ];
    expect(await allowedOf(objects[0]!, 10)).toBe(10);
    const slot = String(slotOf(fixture.keys.all));
    const from = await fixture.nodeOf(fixture.keys.all);
    const to = redis.server.nodes.find((node) => node !== from)!;
    redis.defer(() => endMigrations(redis.server.nodes));

    let isMoving = true;
    let allowed = 10;
    // Other keys as well, which do not exist yet where the slot comes from.
    const calling = objects.map(async (limiter, at) => {
      for (let call = 0; isMoving; call++) {
        const more = await allowedOf(limiter, 1);
        allowed += more;
        await limiter.check(`another ${String(at)} ${String(call)}`);
      }
    });
    await moveSlot(redis.server.nodes, { slot, from, to, login: [] });
    await moveSlot(redis.server.nodes, { slot, from: to, to: from, login: [] });
    isMoving = false;
    await Promise.all(calling);
    allowed += await allowedOf(objects[1]!, 60);
    expect(allowed).toBe(50);
    expect(await allowedOf(objects[0]!, 20, "another")).toBe(10);
    expect(await objects[1]!.check("third")).toMatchObject({ allowed: false, refusedBy: "total" });
  });
});

describe("the scripts of a limiter", () => {
  const slots = onMovingSlots(redis, scripts);
  const settings = "rate,g,5,3600000,5,0";
  const keys = (): { limits: string; all: string; rate: string; rates: string[] } => {
    const [{ limits, all }, rate] = [fixture.keys, fixture.keys.rate(key)];
    return { limits, all, rate, rates: [rate] };
  };
  const seed = async (): Promise<void> => {
    const { limits, all, rate } = keys();
    await fixture.db.set(limits, `1 0 ${settings}`, "PX", 60_000);
    for (const state of [all, rate]) await fixture.db.set(state, "1 0 0 g,5,3600000,5,0", "PX", 60_000);
  };

  it("answer each call as without a move", async () => {
    const limiter = fixture.make({ rate: { count: 5, perMs: hourMs } });
    expect(await allowedOf(limiter, 7)).toBe(5);
    const controller = new AbortController();
    const waiting = rejection(limiter.wait(key, { signal: controller.signal }));
    expect(await limiter.check(key)).toMatchObject({ allowed: false });
    controller.abort();
    await waiting;
    await limiter.reset(key);
    await limiter.setLimits({ fewer: { count: 3, perMs: hourMs } });
    expect(await allowedOf(limiter, 7)).toBe(3);
    await limiter.setLimits(null);
  });

  slots.itRanAll(keys, () => [
    { script: scripts.take, args: [settings, "c 1 0"], seed },
    { script: scripts.check, args: [settings, 1], seed },
    { script: scripts.undo, args: ["-", "-", "-", "-"], seed },
    { script: scripts.change, args: [settings, 0], seed },
  ]);
});
