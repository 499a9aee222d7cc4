import { connect } from "@kit/core";
import * as testing from "@kit/testing";
import { describeLeasingProcess, describeSmoke } from "@tooling/vitest/conformance";
import { inboxes } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { conformance } from "./conformance.js";
import { fixtureOf, enqueue, name } from "./harness.js";
import { leasingOf } from "./leasing.js";

const { eventually } = testing;
const redis = testing.useRedis(vitest);
const fixture = fixtureOf(redis);

describeSmoke(conformance, { connect, ...testing, redis });
describeLeasingProcess(leasingOf(redis));

describe("a semaphore on ioredis 5", () => {
  it("hands over between processes", async () => {
    const held = await fixture.make({ permits: 1 }).acquire();
    const peer = await fixture.spawn({ permits: 1 });
    const acquiring = peer.acquire();
    await fixture.untilWaiting(name, 1);
    await held.release();
    expect(await peer.release(await acquiring)).toBe("released");
  });

  it("loses neither its permit nor a place in the queue when its connections are killed", async () => {
    const semaphore = fixture.on(redis.connect({ retryStrategy: () => 20 }), { permits: 1 });
    const holder = await semaphore.acquire();
    const waiter = await enqueue(semaphore);
    for (const type of ["pubsub", "normal"]) {
      await redis.server.call("CLIENT", "KILL", "TYPE", type);
      await eventually(async () => expect(await inboxes(redis.server.nodes)).toBe(1));
    }
    await fixture.untilWaiting(name, 1);
    expect(await holder.release()).toBe("released");
    expect(await (await waiter.promise).release()).toBe("released");
  });
});
