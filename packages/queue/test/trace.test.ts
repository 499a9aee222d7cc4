import { traceKit } from "@kit/core/otel";
import { eventually, useRedis } from "@kit/testing";
import { Peer, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it, onTestFinished } from "vitest";
import { editJob, setPriority } from "../src/manage/index.js";
import { fixtureOf, name, permanentKeys, Runs } from "./harness.js";
import { type EndedSpan, tracing } from "./programs/tracing.mjs";

const redis = useRedis(vitest, { permanentKeys });
const fixture = fixtureOf(redis);
const given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

describe("a traced job", () => {
  it("belongs to one trace in the process that adds it and in the one that runs it", async () => {
    const { api, tracer, spans } = tracing();
    onTestFinished(() => api.context.disable());
    const stop = traceKit({ tracer: tracer as never });
    onTestFinished(stop);
    const peer = new Peer(new URL("programs/traced.mjs", import.meta.url), [
      ...[String(redis.server.nodes[0]!.port), redis.prefix, name],
    ]);
    redis.defer(() => peer.kill());
    await peer.ready;
    const queue = fixture.make({ maxAttempts: 1 });
    const [seen, broken] = await tracer.startActiveSpan("request", async (span) => {
      const all = [
        await queue.call("job", "fine", { waitMs: 20_000 }),
        await queue.addAll([{ name: "job", data: "broken" }]),
      ];
      span.end();
      return all;
    });
    const ended = await eventually(async () => {
      const all = await peer.ask<EndedSpan[]>("spans");
      if (all.filter(({ name: own }) => own === "queue.run").length < 2) throw new Error("not yet");
      return all;
    });
    const [request] = spans().filter((span) => span.name === "request");
    const call = spans().find((span) => span.name === "queue.call")!;
    const addAll = spans().find((span) => span.name === "queue.addAll")!;
    expect(call.parent).toBe(request!.id);
    const runs = ended.filter((span) => span.name === "queue.run");
    // CONSUMER is 4, ERROR 2.
    expect(runs).toMatchObject([
      { kind: 4, code: 0, trace: request!.trace, parent: call.id, attributes: { "kit.queue": name, "kit.job": "job" } },
      { kind: 4, code: 2, trace: request!.trace, parent: addAll.id, attributes: { "kit.id": (broken as string[])[0] } },
    ]);
    // Spans of the handler are inside.
    expect(ended.filter((span) => span.name === "own").map(({ parent }) => parent)).toEqual(runs.map(({ id }) => id));
    expect(seen).toBe(`00-${request!.trace}-${call.id}-01 ${request!.trace}`);
  });

  it("keeps the traceparent of its add option through retries, edits and priorities, among others without one", async () => {
    const queue = fixture.make({ maxAttempts: 2, backoff: { firstMs: 1 } });
    const id = await queue.add("job", "traced", { traceparent: given, delayMs: 600_000, unique: { key: "a key" } });
    await queue.add("w00-job", "plain", { delayMs: 600_000 });
    await editJob(redis.client, { queue: name, prefix: redis.prefix }, id, { maxAttempts: 3, data: "edited" });
    await setPriority(redis.client, { queue: name, prefix: redis.prefix }, id, 5);
    for (const entry of await fixture.db.zrange(fixture.keysOf().delayed, "0", "-1"))
      await fixture.db.zadd(fixture.keysOf().delayed, 1, entry);
    const runs = new Runs();
    const handler = (job: Parameters<Runs["handler"]>[0]): void => {
      runs.handler(job);
      if (job.attempt === 1 && job.data === "edited") throw new Error("again");
    };
    const worker = queue.work({ job: handler, "w00-job": handler });
    await runs.until(3);
    await worker.close();
    const carried = runs.jobs.map(({ data, traceparent }) => `${String(data)} ${String(traceparent)}`);
    expect(carried.toSorted((one, other) => one.localeCompare(other))).toEqual([
      ...[`edited ${given}`, `edited ${given}`],
      "plain undefined",
    ]);
    expect(runs.jobs.find(({ data }) => data === "edited")).toMatchObject({ maxAttempts: 3, priority: 5 });
    for (const traceparent of ["", "x", given.toUpperCase(), `${given}-0`])
      expect(await rejection(queue.add("job", 1, { traceparent }))).toBeInstanceOf(RangeError);
  });

  it("has no word in its header without a trace", async () => {
    const queue = fixture.make();
    const id = await queue.add("job", 1);
    expect(await fixture.db.hget(fixture.keysOf().jobs, id)).toMatch(/^\w+ job\n1$/);
  });
});
