import { useRedis } from "@kit/testing";
import { rejection } from "@tooling/vitest/helpers";
import type { Redis } from "ioredis";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { fixtureOf } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const name = "chest";
const reason = new Error("never mind");

/** Runs `then` so many microtasks after the client has the reply to its next script. */
const afterNextReply = (client: Redis, microtasks: number, then: () => void): void => {
  const call = client.call.bind(client) as (...args: unknown[]) => Promise<unknown>;
  client.call = (...args: unknown[]) => {
    client.call = call;
    const reply = call(...args);
    void reply.then(async () => {
      for (let count = 0; count < microtasks; count++) await Promise.resolve();
      then();
    });
    return reply;
  };
};

describe("a signal that aborts while the first reply is on its way to the caller", () => {
  it("ends the wait, at whichever step it aborts", async () => {
    const holder = await fixture.make().acquire(name);
    const client = fixture.connect() as Redis;
    const lock = fixture.on(client);
    await lock.inspect(name);
    let controller = new AbortController();
    const waited: { readonly isAborted: boolean }[] = [];
    lock.on("waiting", () => waited.push({ isAborted: controller.signal.aborted }));
    let steps = 0;
    for (; waited.length === 0; steps++) {
      controller = new AbortController();
      afterNextReply(client, steps, () => controller.abort(reason));
      expect(await rejection(lock.acquire(name, { signal: controller.signal, waitMs: 10_000 }))).toBe(reason);
      await fixture.untilWaiting(name, 0);
    }
    expect(waited).toEqual([{ isAborted: false }]);
    // There were steps between the first, which ends the command, and the last, which ends a wait that had begun.
    expect(steps).toBeGreaterThan(2);
    await holder.release();
  });
});
