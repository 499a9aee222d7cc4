import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { useRedis } from "@kit/testing";
import { createFlags, type Flags, type FlagsOptions } from "../src/config/index.js";
import { own, proxied, rejection, until } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys: [/:config:\{flags\}/] });

type Name = "maintenance" | "beta";
const make = (options: FlagsOptions = {}, client: Parameters<typeof createFlags>[0] = redis.client): Flags<Name> => {
  const definitions = { maintenance: { whenUnknown: true }, beta: { whenUnknown: false } };
  const flags = createFlags(client, definitions, { prefix: redis.prefix, ...options });
  redis.defer(() => flags.close());
  return flags;
};
const ready = async (options?: FlagsOptions): Promise<Flags<Name>> => {
  const flags = make(options, redis.connect());
  await flags.ready();
  return flags;
};
const entry = (): string => `${redis.prefix}:config:{flags}:entry`;

describe("flags", () => {
  it("are what their policy says until they are known, and off if they were never set", async () => {
    const flags = make();
    expect([flags.isOn("maintenance"), flags.isOn("beta"), flags.state]).toEqual([true, false, "loading"]);
    expect(flags.get("maintenance")).toEqual({ on: true, reason: undefined, until: undefined, isKnown: false });
    await flags.ready();
    expect([flags.isOn("maintenance"), flags.isOn("beta")]).toEqual([false, false]);
    await until(() => flags.state === "fresh");
    expect(flags.get("maintenance").isKnown).toBe(true);
  });

  it("reach every process with their reason and end, by push", async () => {
    const [here, there] = [await ready(), await ready()];
    const changes: unknown[] = [];
    there.on("change", (...change) => changes.push(change));
    const until1 = new Date("2030-01-01T00:00:00Z");
    await here.set("maintenance", true, { reason: "new disks", until: until1, author: "ada" });
    expect(here.isOn("maintenance")).toBe(true);
    await until(() => there.isOn("maintenance"));
    const flag = { on: true, reason: "new disks", until: until1.getTime(), isKnown: true };
    expect([there.get("maintenance"), changes]).toEqual([flag, [["maintenance", flag]]]);
    expect(Object.isFrozen(there.get("maintenance"))).toBe(true);
    await here.set("maintenance", false);
    await until(() => !there.isOn("maintenance"));
    expect(there.get("maintenance").reason).toBeUndefined();
  });

  it("leave each other alone when many are set at once", async () => {
    const processes = await Promise.all([ready(), ready(), ready(), ready()]);
    await Promise.all(
      processes.map((flags, index) => flags.set(index % 2 ? "beta" : "maintenance", true, { deadlineMs: 10_000 })),
    );
    for (const flags of processes) await until(() => flags.isOn("maintenance") && flags.isOn("beta"));
    const stored = JSON.parse((await redis.client.hget(entry(), "value"))!) as object;
    expect(stored).toEqual({ maintenance: { on: true }, beta: { on: true } });
  });

  it("that this process does not know stay as they are", async () => {
    const flags = createFlags(redis.client, { other: { whenUnknown: false } }, { prefix: redis.prefix });
    redis.defer(() => flags.close());
    await flags.set("other", true, { reason: "mine" });
    await (await ready()).set("beta", true);
    expect(flags.get("other")).toMatchObject({ on: true, reason: "mine" });
    expect(JSON.parse((await redis.client.hget(entry(), "value"))!)).toMatchObject({ other: { on: true } });
  });

  it("any text, even `no`, is refused instead of being taken for on", async () => {
    const flags = await ready();
    await flags.set("beta", true);
    const errors: string[] = [];
    flags.on("error", ({ code }) => errors.push(code));
    for (const [revision, text] of ['{"maintenance":{"on":"no"}}', '{"maintenance":"no"}', '"no"', "no"].entries()) {
      await redis.client.hset(entry(), { revision: revision + 2, value: text });
      await redis.client.publish(`${redis.prefix}:config:{flags}:changed`, "x");
      await until(() => errors.length === revision + 1);
      expect([flags.state, flags.isOn("maintenance"), flags.isOn("beta")]).toEqual(["degraded", false, true]);
    }
    expect(new Set(errors)).toEqual(new Set(["KIT_CONFIG_INVALID"]));
    // Nobody is kept from switching by what was spoilt.
    await flags.set("maintenance", true);
    expect([flags.state, flags.isOn("maintenance"), flags.isOn("beta")]).toEqual(["fresh", true, true]);
  });

  it("a server that cannot be asked shows in the state, and after maxStaleMs in the answer", async () => {
    const proxy = await proxied(redis);
    const client = await own(redis, { url: proxy.url });
    const flags = make({ deadlineMs: 100, pollMs: 100, maxStaleMs: 800 }, client);
    await flags.ready({ waitMs: 30_000 });
    await flags.set("beta", true, { deadlineMs: 30_000 });
    proxy.refuse = true;
    proxy.resetAll();
    await until(() => flags.state === "stale");
    expect([flags.isOn("beta"), flags.isOn("maintenance"), flags.get("beta").isKnown]).toEqual([true, false, true]);
    await until(() => !flags.isOn("beta"));
    expect([flags.isOn("maintenance"), flags.get("beta").isKnown, flags.staleMs > 800]).toEqual([true, false, true]);
    proxy.refuse = false;
    await until(() => flags.isOn("beta"), 10_000);
    expect(flags.isOn("maintenance")).toBe(false);
  });

  it("refuse what they are not", async () => {
    const flags = make();
    expect(() => flags.isOn("betta" as never)).toThrow(RangeError);
    expect((await rejection(flags.set("betta" as never, true))).message).toContain("betta");
    expect((await rejection(flags.set("beta", "no" as never))).message).toContain("`on`");
    expect((await rejection(flags.set("beta", true, { until: Number.NaN }))).message).toContain("`until`");
    expect((await rejection(flags.set("beta", true, { reason: "" }))).message).toContain("`reason`");
    expect(() => createFlags(redis.client, { beta: {} as never })).toThrow("whenUnknown");
    expect(() => make({ maxStaleMs: 0 })).toThrow("maxStaleMs");
    await flags.close();
    expect(await rejection(flags.set("beta", true))).toMatchObject({ code: "KIT_CLOSED" });
  });
});
