import { useRedis } from "@kit/testing";
import { timed } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { fixtureOf, name } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);

describe("a server that loses its data and all connections at once", () => {
  it("serves all who wait without a pause, once they are connected again", async () => {
    const holder = await fixture.make({ permits: 1 }).acquire();
    const semaphores = [redis.connect(), redis.connect()].map((client) => fixture.on(client, { permits: 1 }));
    const sections = semaphores.flatMap((semaphore) =>
      Array.from({ length: 20 }, () => semaphore.acquire().then((permit) => permit.release())),
    );
    await fixture.untilWaiting(name, sections.length);
    // In one step, so that nobody asks in between.
    await redis.server.call("MULTI");
    await redis.server.call("FLUSHALL");
    await redis.server.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
    await redis.server.call("CLIENT", "KILL", "TYPE", "pubsub");
    await redis.server.call("EXEC");
    // If no waiter could be notified, one would come every two seconds.
    const { awakeMs } = await timed(Promise.all(sections));
    expect(awakeMs).toBeLessThan(5_000);
    expect(await holder.release()).toBe("not-held");
  });
});
