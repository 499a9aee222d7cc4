import { connect } from "@kit/core";
import { useRedis } from "@kit/testing";
import { inspectCall, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { descriptor } from "../src/descriptor/index.js";
import { fixtureOf } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);

const connection = async () => {
  const client = await connect({ url: redis.url, deadlineMs: 10_000 });
  redis.defer(() => client.close());
  return client;
};

describe("kit inspect stats", () => {
  const [inspector] = descriptor.inspectors!;
  const look = async (name: string, options = {}) =>
    await inspector!.look(inspectCall(await connection(), redis.prefix, options), name);
  const keysOf = (name: string) => inspector!.keys!(redis.prefix, name);

  it("shows a counter's total and newest buckets, and changes nothing", async () => {
    const counter = fixture.make().counter("views_total", { labelNames: ["shop", "category"] });
    const now = await fixture.serverMs();
    const labels = { shop: "a;b", category: "hats" };
    await counter.add(labels, 3, { at: now });
    await counter.add(labels, 4, { at: now - 60_000 });
    await counter.add(labels, 5, { at: now - 86_400_000 });
    const before = await redis.keys();
    const { data, facts, table } = await look("views_total;shop=a%3Bb;category=hats");
    const id = "views_total;category=hats;shop=a%3Bb";
    expect(data).toMatchObject({ metric: id, kind: "counter", total: 12, stepMs: 60_000, series: 0 });
    expect(Object.fromEntries(facts!)).toEqual({ counter: id, total: "12" });
    const counted = table!.rows.filter(([, count]) => count !== "0");
    expect(counted.map(([, count]) => count)).toEqual(["4", "3"]);
    expect(keysOf("views_total;shop=a%3Bb;category=hats").filter((key) => before.includes(key))).toEqual([
      fixture.keysOf(id).total,
    ]);
    expect(await redis.keys()).toEqual(before);
  });

  it("names the series of a metric with labels", async () => {
    const stats = fixture.make();
    const counter = stats.counter("views_total", { labelNames: ["shop"] });
    for (const shop of ["a", "b"]) await counter.add({ shop });
    await stats.flush();
    const { data, facts } = await look("views_total");
    expect(data).toMatchObject({ kind: null, total: null, buckets: [], series: 2 });
    const said = Object.fromEntries(facts!);
    expect(said["total"]).toBe("none: it has labels; name one of its series");
    expect(said["series"]).toMatch(/^2: views_total;shop=[ab], views_total;shop=[ab]$/);
  });

  it("shows a distribution's values", async () => {
    const latency = fixture.make().distribution("request_ms");
    const at = await fixture.serverMs();
    for (const ms of [16, 16, 64]) await latency.record(ms, { at });
    const { data, facts, table } = await look("request_ms");
    expect(data).toMatchObject({ kind: "distribution", total: { count: 3, sum: 96, mean: 32, min: 16, max: 64 } });
    expect(Object.fromEntries(facts!)).toMatchObject({
      total: "3 values, from 16 to 64",
      mean: "32, standard deviation 22.627",
    });
    const [row] = table!.rows.filter(([, count]) => count !== "0");
    expect([row![1], row![2], row![5]]).toEqual(["3", "32", "64"]);
    expect(table!.rows.find(([, count]) => count === "0")!.slice(1, 6)).toEqual(["0", "-", "-", "-", "-"]);
  });

  it("finds buckets of a width that only this counter has, when it is named", async () => {
    const counter = fixture.make().counter("orders_total", { precisions: [{ stepMs: 300_000, keepMs: 86_400_000 }] });
    await counter.add(7);
    const { facts } = await look("orders_total");
    expect(Object.fromEntries(facts!)["buckets"]).toBe(
      "nothing in the last 10m; a width that only this metric has: --step",
    );
    const { table } = await look("orders_total", { step: "5m" });
    expect(table!.rows.filter(([, count]) => count === "7")).toHaveLength(1);
  });

  it("says that nothing is stored, and what is no name", async () => {
    const { data, facts } = await look("nothing_total");
    expect(data).toMatchObject({ kind: null, total: null, stepMs: null, buckets: [] });
    expect(Object.fromEntries(facts!)).toEqual({ metric: "nothing_total", total: "nothing is stored" });
    expect(await redis.keys()).toEqual([]);
    for (const name of ["a-b", "a;b", "a;=b", "a;b=1;b=2"])
      expect(await rejection((async () => await look(name))())).toBeInstanceOf(RangeError);
    for (const step of ["5", "0s", "9ms", "m", "1e3s", "9999d"])
      expect(await rejection((async () => await look("a_total", { step }))())).toMatchObject({
        message: expect.stringContaining("--step") as string,
      });
  });
});
