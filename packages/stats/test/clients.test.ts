import { eventually, useRedis } from "@kit/testing";
import { Redis } from "ioredis5";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { fixtureOf } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);

describe("statistics on ioredis 5", () => {
  it("count, observe, log, read and tail, also under a prefix of the client's own", async () => {
    const client = new Redis(redis.url, { disconnectTimeout: 50, keyPrefix: "own:" });
    redis.defer(() => client.disconnect());
    const stats = fixture.on(client);
    const counter = stats.counter("orders_total");
    counter.inc(2);
    expect(await counter.add(3)).toBe(5);
    expect((await counter.read({ lastMs: 60_000 })).reduce((sum, { value }) => sum + value, 0)).toBe(5);
    const latency = stats.distribution("request_ms", { slowest: 2 });
    await latency.timed(() => undefined, { subject: "/" });
    expect((await latency.record(7)).total.count).toBe(2);
    expect((await latency.summary({ lastMs: 60_000 })).quantile(1)).toBe(7);
    expect(await latency.slowest({ lastMs: 60_000 })).toHaveLength(1);
    const log = stats.messages("checkout");
    const ending = new AbortController();
    const seen: string[] = [];
    const tailing = (async () => {
      for await (const { level, text } of log.tail({ signal: ending.signal })) seen.push(`${level} ${text}`);
    })();
    const node = redis.server.nodes[0]!;
    await eventually(async () => expect(String(await node.call("CLIENT", "LIST"))).toContain("cmd=xread"));
    log.log("warn", "refused 7");
    await stats.flush();
    await eventually(() => expect(seen).toHaveLength(1));
    log.log("error", "refused 8");
    await stats.flush();
    await eventually(() => expect(seen).toContain("error refused 8"));
    expect(seen).toEqual(["warn refused 7", "error refused 8"]);
    ending.abort();
    await tailing;
    expect((await log.recent()).entries).toMatchObject([{ text: "refused 8" }, { text: "refused 7" }]);
    expect(await log.frequent({ lastMs: 1_000 })).toMatchObject([{ count: 1 }, { count: 1 }]);
    await stats.close();
  });
});
