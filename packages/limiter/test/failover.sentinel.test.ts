import { type Connection, connect } from "@kit/core";
import { eventually, type RedisNode, useRedis } from "@kit/testing";
import { inStep } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { allowedOf, five, fixtureOf, key, permanentKeys } from "./harness.js";

const redis = useRedis(vitest, { mode: "sentinel", permanentKeys });
const fixture = fixtureOf(redis);

/** A client that kit made, for one test. */
const owned = async (): Promise<Connection> => {
  const client = await connect({ url: redis.url, deadlineMs: 20_000 });
  redis.defer(() => client.close());
  return client;
};

/** Kills the master when its replicas have all data, and waits for the next. The old one comes back before the test ends. */
const failOver = async (): Promise<void> => {
  const [old] = redis.server.nodes as [RedisNode];
  await inStep(old, redis.server.replicas);
  await old.kill();
  redis.defer(() => old.start());
  await eventually(async () => expect(await redis.server.master()).not.toBe(old), { timeoutMs: 60_000 });
};

describe("a limiter whose master fails", () => {
  it("never allows more than its limit, and a wait that was reserved starts", async () => {
    const client = await owned();
    const limiter = fixture.on(client, five, { deadlineMs: 500 });
    expect(await allowedOf(limiter, 3)).toBe(3);
    const partner = fixture.on(client, { rate: { count: 1, perMs: 2_000, burst: 1 } });
    await partner.wait("partner");
    const waiting = partner.wait("partner");
    await partner.check("partner");

    await failOver();
    await waiting;
    let allowed = 0;
    let rejected = 0;
    // Until the next master refuses.
    await eventually(
      async () => {
        const decision = await limiter.consume(key).catch((error: unknown) => {
          rejected++;
          throw error;
        });
        if (decision.allowed) allowed++;
        expect(decision).toMatchObject({ allowed: false, refusedBy: "hourly", decidedBy: "server" });
      },
      { timeoutMs: 60_000 },
    );
    // A call whose reply was lost has used its token.
    expect(allowed).toBeLessThanOrEqual(2);
    expect(allowed + rejected).toBeGreaterThanOrEqual(2);
  });
});
