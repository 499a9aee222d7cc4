import { eventually, useRedis } from "@kit/testing";
import { rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { Job } from "../src/index.js";
import { addedJobs, drain, expectAdded, ManualClock } from "../src/testing/index.js";
import { queueKeys } from "../src/job/keys.js";
import { fixtureOf, name, permanentKeys } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
const { make, counts } = fixtureOf(redis);
const address = (): { queue: string; prefix: string } => ({ queue: name, prefix: redis.prefix });

describe("expectAdded", () => {
  it("finds the one job of a name and data, in any state", async () => {
    const queue = make();
    const id = await queue.add("email", { to: "ann", at: new Date(0) }, { delayMs: 60_000, priority: 2 });
    await queue.add("email", Uint8Array.of(255, 10, 0));
    expect(await expectAdded(redis.client, address(), "email", { at: new Date(0), to: "ann" })).toMatchObject({
      id,
      priority: 2,
    });
    await expectAdded(redis.client, address(), "email", Uint8Array.of(255, 10, 0));
    expect(await addedJobs(redis.client, address())).toHaveLength(2);
  });

  it("rejects if there is none, or several", async () => {
    const queue = make();
    for (const data of [1, 1]) await queue.add("email", data);
    const wrong: readonly (readonly [name: string, data?: unknown])[] = [
      ["email", 2],
      ["other"],
      ["email", 1],
      ["email"],
    ];
    for (const args of wrong)
      expect(String(await rejection(expectAdded(redis.client, address(), ...args)))).toMatch(/Expected one/);
  });
});

describe("drain", () => {
  it("runs all ready jobs, also those they add, and leaves delayed ones", async () => {
    const queue = make({ maxAttempts: 2, backoff: { firstMs: 600_000 } });
    for (const data of [0, 1, 2]) await queue.add("step", data);
    await queue.add("step", 9, { delayMs: 600_000 });
    await queue.add("broken", 0);
    const ran: unknown[] = [];
    const drained = await drain(queue, {
      step: async ({ data }: Job) => {
        ran.push(data);
        if (data === 2) await queue.add("step", 3);
      },
      broken: () => {
        throw new Error("broken");
      },
    });
    expect(ran).toEqual([0, 1, 2, 3]);
    expect(drained.completed).toEqual(["step", "step", "step", "step"]);
    expect(drained.failed).toMatchObject([{ name: "broken", error: { message: "broken" } }]);
    expect(await counts()).toMatchObject({ jobs: 2, delayed: 2, waiting: 0, leases: 0 });
    await queue.add("unknown", 0);
    const refused = await drain(queue, { other: () => undefined });
    expect(refused).toMatchObject({ completed: [], failed: [{ name: "unknown", error: { code: "KIT_JOB_REFUSED" } }] });
  });

  it("lets handlers reach their time limits without waiting, by a manual clock", async () => {
    const queue = make({ timeoutMs: 60_000 });
    const clock = new ManualClock();
    await queue.addAll(["within", "beyond", "within"].map((job) => ({ name: job, data: 0 })));
    const afterMs = (ms: number) => (job: Job) => {
      clock.advance(ms);
      job.signal.throwIfAborted();
    };
    const drained = await drain(queue, { within: afterMs(59_999), beyond: afterMs(60_000) }, { clock });
    expect(drained.completed).toEqual(["within", "within"]);
    expect(drained.failed).toMatchObject([{ name: "beyond", error: { code: "KIT_JOB_TIMEOUT" } }]);
    expect(clock.nowMs).toBe(2 * 59_999 + 60_000);
    for (const wrong of [-1, 0.5, NaN]) expect(() => clock.advance(wrong)).toThrow(RangeError);
  });

  it("runs the rest once a server that refused for a while does so no longer", async () => {
    const queue = make();
    await queue.addAll(Array.from({ length: 10 }, (_, data) => ({ name: "job", data })));
    const node = redis.server.nodes[0]!;
    const refuse = (replicas: string): Promise<unknown> =>
      node.call("CONFIG", "SET", "min-replicas-to-write", replicas);
    redis.defer(() => refuse("0"));
    const draining = drain(queue, { job: async ({ data }: Job) => void (data === 3 && (await refuse("1"))) });
    await eventually(async () =>
      expect(String(await node.call("INFO", "errorstats"))).toMatch(/errorstat_NOREPLICAS:count=[1-9]/),
    );
    await refuse("0");
    expect((await draining).completed).toHaveLength(10);
  });

  it("rejects after timeoutMs", async () => {
    const queue = make();
    await queue.add("job", 1);
    const never = { job: () => new Promise(() => undefined) };
    expect(String(await rejection(drain(queue, never, { timeoutMs: 50 })))).toMatch(/not empty after 50 ms/);
    expect(String(await rejection(drain(queue, never, { timeoutMs: 2 ** 31 })))).toMatch(/^RangeError: Expected/);
    await redis.client.hset(queueKeys(redis.prefix, "newer").meta, "layout", "2");
    const refused = drain(make({ name: "newer" }), never, { timeoutMs: 500 });
    expect(await rejection(refused)).toMatchObject({ cause: { code: "KIT_LAYOUT" } });
  });
});
