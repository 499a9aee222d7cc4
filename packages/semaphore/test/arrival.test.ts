import { eventually, FaultProxy, useRedis } from "@kit/testing";
import { callsOf } from "@tooling/vitest/helpers";
import { Redis } from "ioredis";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { fixtureOf, enqueue } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);

describe("the order of arrival at a client's first wait", () => {
  it("is that of the first command, not that of the connection for pushes", async () => {
    const holder = await fixture.make({ permits: 1 }).acquire();
    const near = fixture.on(redis.connect(), { permits: 1 });
    await (await fixture.on(redis.connect(), { name: "another" }).acquire()).release();
    await using proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
    const client = new Redis({ port: proxy.port, disconnectTimeout: 50 });
    redis.defer(() => client.disconnect());
    const far = fixture.on(client, { permits: 1 });
    await (await fixture.on(client, { name: "another" }).acquire()).release();
    proxy.down.latencyMs = 100;
    const served: string[] = [];
    const before = await callsOf(redis.server, "evalsha");
    const first = far.acquire().then((permit) => (served.push("far"), permit.release()));
    await eventually(async () => expect(await callsOf(redis.server, "evalsha")).toBeGreaterThan(before));
    const second = await enqueue(near);
    const last = second.promise.then((permit) => (served.push("near"), permit.release()));
    await holder.release();
    await Promise.all([first, last]);
    expect(served).toEqual(["far", "near"]);
  });

  it("is kept where thousands come at once to a semaphore that nobody has used", async () => {
    const semaphore = fixture.on(redis.connect(), { permits: 1, deadlineMs: 60_000 });
    const count = 2_000;
    const served: number[] = [];
    await Promise.all(
      Array.from({ length: count }, async (_, index) => {
        const permit = await semaphore.acquire();
        served.push(index);
        await permit.release();
      }),
    );
    expect(served).toEqual(Array.from({ length: count }, (_, index) => index));
  });
});
