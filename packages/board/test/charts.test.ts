import type { MetricSample } from "@kit/core/toolkit";
import { createQueue } from "@kit/queue";
import { inspectQueue, type Overview } from "@kit/queue/manage";
import { useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { Samples } from "../src/view/samples.js";
import { chartsPart } from "../src/queue/charts.js";
import type { QueueData } from "../src/queue/data.js";
import type { View } from "../src/view/view.js";
import { permanentKeys } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });

/** Returns a function that makes the overview of a queue `ms` later. */
const aQueue = async () => {
  const queue = createQueue(redis.client, "mail", { prefix: redis.prefix });
  redis.defer(() => queue.close());
  await queue.add("slow", 1);
  const seen = await inspectQueue(redis.client, { queue: "mail", prefix: redis.prefix });
  return (ms: number, more: Partial<Overview> = {}): Overview => ({ ...seen, now: seen.now + ms, ...more });
};

const htmlOf = async (view: object, data: Overview): Promise<string> =>
  String(await chartsPart(view as View, "mail", data as QueueData));

const textOf = async (view: object, data: Overview): Promise<string> => {
  const part = await htmlOf(view, data);
  return part.replace(/<[^>]*>/g, " ").replace(/\s+/g, " ");
};

describe("samples", () => {
  it("are at least 4 s apart, and kept for half an hour", async () => {
    const at = await aQueue();
    const samples = new Samples();
    for (const ms of [0, 1_000, 2_000, 5_000, 9_000, 9_500]) samples.take("mail", at(ms));
    const times = samples.take("mail", at(20_000)).map((one) => one.at - at(0).now);
    expect(times).toEqual([0, 5_000, 9_000, 20_000]);
    expect(samples.take("mail", at(1_806_000))).toHaveLength(3);
    expect(samples.take("other", at(1_806_000))).toHaveLength(1);
  });

  it("start again for a queue that was deleted, and forget the queues that nobody looks at", async () => {
    const at = await aQueue();
    const samples = new Samples();
    samples.take("mail", at(0, { completed: 9 }));
    expect(samples.take("mail", at(5_000, { completed: 1 }))).toHaveLength(1);
    for (let n = 0; n < 50; n++) samples.take(`q${String(n)}`, at(6_000));
    expect(samples.take("mail", at(10_000, { completed: 1 }))).toHaveLength(1);
    expect(samples.take("q49", at(11_000))).toHaveLength(2);
  });
});

describe("charts", () => {
  it("show depth and rates of what the board has seen, and when the ready jobs are done", async () => {
    const at = await aQueue();
    const samples = new Samples();
    const view = { samples };
    expect(await textOf(view, at(0))).toContain("Charts start when this page has updated twice");
    samples.take("mail", at(10_000, { waiting: 400, completed: 100 }));
    const text = await textOf(view, at(20_000, { waiting: 300, completed: 200, died: 5, active: 7 }));
    expect(text).toMatch(/300 ready 1 to 400 in 20 s/);
    expect(text).toMatch(/7 active 0 to 7 in 20 s/);
    expect(text).toMatch(/10 completed per second 10 to 10 in 10 s/);
    expect(text).toMatch(/30 died per minute 0 to 30 in 10 s/);
    expect(text).toContain("the ready jobs are done in 30 s");
  });

  it("compute quantiles from histograms as Prometheus does", async () => {
    const at = await aQueue();
    const histogram = (name: string, job: string, buckets: readonly (readonly [string, number])[]): MetricSample[] => [
      ...buckets.map(([le, value]): MetricSample => ({
        ...{ name, type: "histogram", help: "", suffix: "_bucket", value, labels: { queue: "mail", job, le } },
      })),
      {
        name,
        type: "histogram",
        help: "",
        suffix: "_count",
        value: buckets.at(-1)?.[1] ?? 0,
        labels: { queue: "mail", job },
      },
    ];
    const source = [
      ...histogram("kit_queue_wait_seconds", "slow", [
        ["0.1", 50],
        ["1.0", 100],
        ["+Inf", 100],
      ]),
      ...histogram("kit_queue_run_seconds", "slow", [
        ["0.1", 0],
        ["1.0", 90],
        ["+Inf", 100],
      ]),
      ...histogram("kit_queue_run_seconds", "quick", [
        ["0.1", 1],
        ["1.0", 1],
        ["+Inf", 1],
      ]),
    ];
    const view = { samples: new Samples(), metrics: () => ({ metrics: () => source }) };
    const text = await textOf(view, at(0));
    expect(text).toMatch(/slow 100 100 ms 910 ms 982 ms 600 ms over 1.0 s over 1.0 s/);
    expect(text).toMatch(/quick 1 .* 50 ms 95 ms 99 ms/);
    expect(text).toMatch(/910 ms wait, p95/);
    const bars = [...(await htmlOf(view, at(0))).matchAll(/<rect [^>]*height="([\d.]+)"/g)];
    expect(bars.map(([, high]) => Math.round(Number(high)))).toEqual([...[48, 48, 0], ...[1, 48, 5]]);
  });
});
