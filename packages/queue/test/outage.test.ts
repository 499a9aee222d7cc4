import { connect } from "@kit/core";
import { eventually, FaultProxy, useRedis } from "@kit/testing";
import { aborted } from "@tooling/vitest/helpers";
import type { Redis } from "ioredis";
import * as vitest from "vitest";
import { describe, expect, it, vi } from "vitest";
import type { Job, Queue, Worker } from "../src/index.js";
import { createOrderedWorker } from "../src/ordered/index.js";
import { cancelJob } from "../src/manage/index.js";
import { fixtureOf, name, permanentKeys, Runs } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
const fixture = fixtureOf(redis);
const { make, on, work } = fixture;

/** A user of its own, whose rights the test changes. */
const userOf = async (): Promise<{ acl: (...rules: string[]) => Promise<unknown>; client: Redis }> => {
  const username = `worker-${redis.prefix}`;
  const acl = (...rules: string[]): Promise<unknown> => redis.server.call("ACL", "SETUSER", username, ...rules);
  await acl("on", ">pass", "~*", "&*", "+@all");
  redis.defer(() => redis.server.call("ACL", "DELUSER", username));
  return { acl, client: redis.connect({ username, password: "pass" }) as Redis };
};

const codesOf = (worker: Worker): string[] => {
  const codes: string[] = [];
  worker.on("error", ({ code }) => codes.push(code));
  return codes;
};

/** A job that is added by another client runs, and the worker has emitted the two errors of one outage. */
const goesOn = async (queue: Queue, runs: Runs, codes: readonly string[], code: string): Promise<void> => {
  await queue.add("job", "after");
  await runs.until(1, 20_000);
  await eventually(() => expect(codes).toEqual([code, "KIT_RECOVERED"]));
};

describe("a worker", () => {
  it("whose first contact lacks a right works once it is granted, also in an ordered worker", async () => {
    const { acl, client } = await userOf();
    await acl("-evalsha", "-eval");
    const runs = new Runs();
    const worker = work(on(client), runs.handler);
    const codes = codesOf(worker);
    const ordered = createOrderedWorker();
    redis.defer(() => ordered.close({ timeoutMs: 0 }));
    const others = new Runs();
    const other = codesOf(ordered.serve(on(client, { name: "other" }), { job: others.handler }));
    await eventually(() => expect([codes, other]).toEqual([["KIT_NO_PERMISSION"], ["KIT_NO_PERMISSION"]]));
    await acl("+evalsha", "+eval");
    await goesOn(make(), runs, codes, "KIT_NO_PERMISSION");
    await goesOn(make({ name: "other" }), others, other, "KIT_NO_PERMISSION");
  });

  it("that found a policy which may evict works once the policy is corrected", async () => {
    await redis.server.call("CONFIG", "SET", "maxmemory", "1gb");
    await redis.server.call("CONFIG", "SET", "maxmemory-policy", "allkeys-lru");
    const runs = new Runs();
    const codes = codesOf(work(make(), runs.handler));
    await eventually(() => expect(codes).toEqual(["KIT_QUEUE_EVICTION"]));
    await redis.server.call("CONFIG", "SET", "maxmemory-policy", "noeviction");
    await goesOn(make(), runs, codes, "KIT_QUEUE_EVICTION");
  });

  it("that loses a right in the middle of its work, and is refused many times, emits one error and its end", async () => {
    const { acl, client } = await userOf();
    const runs = new Runs();
    const codes = codesOf(work(on(client), runs.handler));
    await fixture.untilIdle(1);
    await acl("-bzpopmin");
    const before = await refusals();
    await make().add("job", "woken");
    await eventually(async () => expect(await refusals()).toBeGreaterThan(before + 3), { timeoutMs: 20_000 });
    expect(codes).toEqual(["KIT_NO_PERMISSION"]);
    await acl("+bzpopmin");
    runs.jobs.length = 0;
    await eventually(() => expect(codes).toEqual(["KIT_NO_PERMISSION", "KIT_RECOVERED"]), { timeoutMs: 30_000 });
  });

  it("renews no lease that was over by its own clock before the job started", async () => {
    const [queue, runs] = [make(), new Runs()];
    const now = performance.now.bind(performance);
    let aheadMs = 0;
    vi.spyOn(performance, "now").mockImplementation(() => now() + aheadMs);
    redis.defer(() => vi.restoreAllMocks());
    const handler = (job: Job): void => {
      runs.handler(job);
      if (job.data !== 30) return;
      // The others of the take begin after that, in this turn.
      aheadMs = 60_000;
      setImmediate(() => (aheadMs = 0));
    };
    const worker = work(queue, handler, { leaseMs: 1_000 });
    const cancelled: unknown[] = [];
    worker.on("cancelled", ({ job }) => cancelled.push(job));
    // From now on it knows that the jobs are quick.
    await queue.addAll(Array.from({ length: 20 }, (_, data) => ({ name: "job", data })));
    await runs.until(20);
    await fixture.untilIdle(1);
    await queue.addAll(Array.from({ length: 30 }, (_, n) => ({ name: "job", data: 20 + n })));
    const lost = await eventually(async () => {
      const leases = await fixture.db.zrange(fixture.keysOf().leases, "0", "-1");
      expect([(await fixture.counts()).waiting, runs.jobs.length + leases.length]).toEqual([0, 50]);
      return leases[0]!.slice(12);
    });
    expect(await cancelJob(redis.client, { queue: name, prefix: redis.prefix }, lost)).toBe("cancelled");
    // The leases end, and the jobs run again.
    await runs.until(49, 20_000);
    await fixture.untilEmpty();
    await worker.close();
    expect(runs.jobs.filter(({ crashes }) => crashes === 1).length).toBeGreaterThan(0);
    expect(cancelled).toEqual([]);
  });

  it("that loses its leases in an outage emits one error when it starts, and one when it is over", async () => {
    const proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
    redis.defer(() => proxy.close());
    const client = await connect({ url: proxy.url, deadlineMs: 10_000 });
    redis.defer(() => client.close());
    const runs = new Runs();
    const begun = new Runs();
    const handler = async (job: Job): Promise<void> => {
      begun.handler(job);
      if (job.data === "held") await aborted(job.signal);
      else runs.handler(job);
    };
    const worker = work(on(client, { deadlineMs: 200 }), handler, { leaseMs: 1_000 });
    const codes = codesOf(worker);
    const lost = new Promise((resolve) => worker.once("lost", resolve));
    await make().add("job", "held");
    await begun.until(1);
    proxy.refuse = true;
    proxy.resetAll();
    await lost;
    const { refused } = proxy.stats;
    await eventually(() => expect(proxy.stats.refused).toBeGreaterThan(refused + 5), { timeoutMs: 20_000 });
    expect(codes).toEqual([codes[0]]);
    proxy.heal();
    const [code = ""] = codes;
    await goesOn(make(), runs, codes, code);
  });

  it("that has work again at the end of an outage reports it without waiting for its next rest", async () => {
    const proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
    redis.defer(() => proxy.close());
    const client = await connect({ url: proxy.url, deadlineMs: 10_000 });
    redis.defer(() => client.close());
    const begun = new Runs();
    const handler = async (job: Job): Promise<void> => {
      begun.handler(job);
      await aborted(job.signal);
    };
    const codes = codesOf(work(on(client, { deadlineMs: 200 }), handler));
    await fixture.untilIdle(1);
    proxy.refuse = true;
    proxy.resetAll();
    const { refused } = proxy.stats;
    await eventually(() => expect(proxy.stats.refused).toBeGreaterThan(refused + 5), { timeoutMs: 20_000 });
    expect(codes).toHaveLength(1);
    await make().add("job", "long");
    await make().add("job", "next");
    proxy.heal();
    await begun.until(1, 20_000);
    await eventually(() => expect(codes.slice(1)).toEqual(["KIT_RECOVERED"]));
    expect(begun.jobs).toHaveLength(1);
  });

  it("that idles through an outage emits one error when it starts, and one when it is over", async () => {
    const proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
    redis.defer(() => proxy.close());
    const client = await connect({ url: proxy.url, deadlineMs: 10_000 });
    redis.defer(() => client.close());
    const runs = new Runs();
    const codes = codesOf(work(on(client, { deadlineMs: 200 }), runs.handler));
    await fixture.untilIdle(1);
    proxy.refuse = true;
    proxy.resetAll();
    const { refused } = proxy.stats;
    await eventually(() => expect(proxy.stats.refused).toBeGreaterThan(refused + 20), { timeoutMs: 20_000 });
    expect(codes).toHaveLength(1);
    proxy.heal();
    const [code = ""] = codes;
    await goesOn(make(), runs, codes, code);
  });
});

/** How often the server has refused the pop of a wait. */
const refusals = async (): Promise<number> => {
  const stats = String(await redis.server.call("INFO", "commandstats"));
  return Number(/^cmdstat_bzpopmin:.*rejected_calls=(\d+)/m.exec(stats)?.[1] ?? 0);
};
