import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { type FaultProxy, useRedis } from "@kit/testing";
import { losingOnce } from "@tooling/vitest/helpers";
import {
  type ComponentEntry,
  createComponent,
  createConfig,
  createFlags,
  type CustomComponentOptions,
  type StandardSchema,
  withComponent,
} from "../src/config/index.js";
import * as scripts from "../src/config/scripts.js";
import { type Connection, type KitError, type KitUnknownOutcomeError, retry } from "../src/index.js";
import { fixtureOf, first, recorded, second } from "./config-harness.js";
import { callsOf, own, proxied, rejection, until } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys: [/:config:\{/] });
const fixture = fixtureOf(redis);

describe("config: entries and histories that were spoilt", () => {
  it.each([
    ["epoch", "e"],
    ["revision", "abc"],
    ["revision", "1.5"],
    ["revision", "9".repeat(400)],
    ["at", "zz"],
  ])(
    "an entry whose %s is %s is refused by readers and writers, and the last good value stays",
    async (field, text) => {
      const config = await fixture.ready({ default: first });
      await config.set(second);
      await redis.client.hset(fixture.keyOf("entry"), { [field]: text, value: JSON.stringify(first) });
      const spoilt = await redis.client.hgetall(fixture.keyOf("entry"));
      await fixture.announce();
      await until(() => config.state === "degraded");
      expect(config.current).toEqual(second);
      expect(await rejection(config.get())).toMatchObject({ code: "KIT_LAYOUT" });
      expect(await rejection(config.set(first))).toMatchObject({ code: "KIT_LAYOUT" });
      expect(await redis.client.hgetall(fixture.keyOf("entry"))).toEqual(spoilt);
    },
  );

  it("a history shows the other writes when a line is no JSON, or no line of ours", async () => {
    const config = await fixture.ready({ default: first });
    await config.set(first);
    await redis.client.lpush(fixture.keyOf("history"), "1\t7\t1\top\tada\t{", "nonsense", "a\tb\tc\td\te\t1");
    await config.set(second);
    expect((await config.history()).map(({ revision, value }) => [revision, value])).toEqual([
      [2, second],
      [1, first],
    ]);
    expect((await config.rollback(1)).revision).toBe(3);
  });

  it("a history has as many large writes as fit in a reply, and a rollback finds those behind them", async () => {
    const config = await fixture.ready({ default: first });
    await config.set(first);
    const large = JSON.stringify("x".repeat(1_500_000));
    for (let n = 0; n < 5; n++) await redis.client.lpush(fixture.keyOf("history"), `1\t7\t1\top\tada\t${large}`);
    expect((await config.history()).map(({ revision }) => revision)).toEqual([7, 7, 7]);
    expect((await config.rollback(1)).revision).toBe(2);
  });

  it("a write is found by its operation id among the last maxHistory writes, and gives the first one's answer", async () => {
    const config = await fixture.ready({ default: first, maxHistory: 2 });
    const written = await config.set(first, { op: "one" });
    await config.set(second);
    expect(await config.set(second, { op: "one" })).toEqual(written);
    // A longer list than is asked for: what another setting left there is not read.
    const kept = await redis.client.lrange(fixture.keyOf("history"), 0, -1);
    await config.set(second);
    await redis.client.rpush(fixture.keyOf("history"), kept.at(-1)!);
    expect((await config.set(first, { op: "one" })).revision).toBe(4);
  });

  it.each([
    ["maxHistory", { maxHistory: 101 }],
    ["maxHistory", { maxHistory: 100, maxBytes: 200_000 }],
    ["maxBytes", { maxBytes: 1_048_576 }],
  ])("a history that would be too large is refused, by the name %s", (name, options) => {
    expect(() => createConfig(redis.client, "n", options)).toThrow(RangeError);
    expect(() => createConfig(redis.client, "n", options)).toThrow(name);
  });
});

/** Settles for no value above 4 before `settle` is called. */
const stuckSchema = (): { schema: StandardSchema<number>; asked: number[]; allow: () => void } => {
  const asked: number[] = [];
  let isAllowed = false;
  const validate = async (value: unknown): Promise<{ value: number }> => {
    asked.push(value as number);
    if ((value as number) > 4 && !isAllowed) await new Promise(() => undefined);
    return { value: value as number };
  };
  return {
    schema: { "~standard": { version: 1, vendor: "test", validate } },
    asked,
    allow: () => {
      isAllowed = true;
    },
  };
};
const late = { code: "KIT_CONFIG_INVALID", issues: [{ path: "", message: "the schema did not settle in time" }] };

describe("config: a schema that does not settle", () => {
  it("keeps set() and get() no longer than their deadline and signal", async () => {
    const { schema } = stuckSchema();
    const config = createConfig(redis.client, "search", { prefix: redis.prefix, schema });
    redis.defer(() => config.close());
    await config.set(1);
    expect(await rejection(config.set(5, { deadlineMs: 100 }))).toMatchObject(late);
    expect((await config.get()).valueOf()).toBe(1);
    const stored = JSON.stringify(await redis.client.hget(fixture.keyOf("entry"), "value"));
    expect(stored).toBe('"1"');
    await fixture.writeUnseen("6");
    expect(await rejection(config.get({ deadlineMs: 100 }))).toMatchObject(late);
    const enough = new Error("enough");
    for (const ask of [
      (signal: AbortSignal) => config.get({ signal }),
      (signal: AbortSignal) => config.set(5, { signal }),
    ]) {
      const ending = new AbortController();
      const asking = rejection(ask(ending.signal));
      setTimeout(() => ending.abort(enough), 50);
      expect(await asking).toBe(enough);
    }
  });

  it("does not keep close(), which rejects who waits for it", async () => {
    const { schema, asked } = stuckSchema();
    const config = createConfig(redis.client, "search", { prefix: redis.prefix, schema });
    redis.defer(() => config.close());
    await config.set(1);
    const setting = rejection(config.set(5, { deadlineMs: 600_000 }));
    await until(() => asked.includes(5));
    await config.close();
    expect(await setting).toMatchObject({ code: "KIT_CLOSED" });
  });

  it("leaves the reader degraded, which reports it once, validates again, and continues following", async () => {
    const { schema, asked, allow } = stuckSchema();
    const options = { prefix: redis.prefix, schema, deadlineMs: 100, pollMs: 100 };
    const config = createConfig(redis.client, "search", options);
    redis.defer(() => config.close());
    await config.set(1, { deadlineMs: 2_000 });
    await until(() => config.state === "fresh");
    const reported = recorded(config);
    await fixture.writeUnseen("5");
    await until(() => config.state === "degraded" && asked.filter((value) => value === 5).length > 2);
    expect(config.current).toBe(1);
    // A busy server may have kept a question waiting for too long meanwhile.
    expect(reported.errors.filter(({ code }) => code === late.code)).toMatchObject([late]);
    await fixture.writeUnseen("2");
    await until(() => config.current === 2 && config.state === "fresh");
    await fixture.writeUnseen("6");
    await until(() => config.state === "degraded");
    allow();
    await until(() => config.current === 6 && config.state === "fresh");
  });
});

interface Link {
  closed: boolean;
}
const linked = (options: Partial<CustomComponentOptions<Link>>) => {
  const component = createComponent<Link>(redis.client, "logs", {
    prefix: redis.prefix,
    open: () => ({ closed: false }),
    close: (link) => {
      link.closed = true;
    },
    ...options,
  });
  const errors: KitError[] = [];
  component.on("error", (error) => errors.push(error));
  component.on("degraded", (error) => errors.push(error));
  redis.defer(() => component.close());
  return { component, errors };
};
const never = (): Promise<never> => new Promise(() => undefined);
const entry: ComponentEntry = { url: "redis://a" };

describe("component: what does not settle", () => {
  it("is given up after ten seconds: an open and a check are refused and tried again, a close is reported", async () => {
    const writer = linked({});
    await writer.component.config.set(entry);
    const startedAt = performance.now();
    const link: Link = { closed: false };
    const signals: AbortSignal[] = [];
    const opening = linked({
      open: (_, { signal }) => {
        signals.push(signal);
        return never();
      },
    });
    const checking = linked({ open: () => link, check: never });
    const closing = linked({ close: never });
    await closing.component.ready();
    const closed = closing.component.close();
    const waits = [opening, checking].map(({ component }) => rejection(component.ready()));
    for (const refused of await Promise.all(waits)) {
      expect(refused).toMatchObject({ code: "KIT_COMPONENT_REFUSED", retryable: true });
      expect(refused.message).toContain("in time");
    }
    expect(performance.now() - startedAt).toBeGreaterThan(9_900);
    await closed;
    expect(closing.errors).toMatchObject([{ message: expect.stringContaining("cannot close") as unknown }]);
    await until(() => signals.length === 2 && link.closed);
    expect(signals[0]!.aborted).toBe(true);
    expect([opening.errors.length, checking.errors.length]).toEqual([1, 1]);
    // A second try is under way: close() ends it at once.
    await Promise.all([opening.component.close(), checking.component.close()]);
    expect(signals[1]!.aborted).toBe(true);
  });

  it("is closed when it comes after its component has ended", async () => {
    let finish: ((link: Link) => void) | undefined;
    const { component } = linked({ open: () => new Promise<Link>((resolve) => (finish = resolve)) });
    await component.config.set(entry);
    await until(() => finish !== undefined);
    await component.close();
    const link: Link = { closed: false };
    finish!(link);
    await until(() => link.closed);
    expect(await rejection(withComponent(component, () => 1)())).toMatchObject({ code: "KIT_CLOSED" });
  });

  it("an address that is refused is reported in kit's own words", async () => {
    const { component } = linked({});
    expect(await rejection(component.config.set({ url: "redis://h:1/0?password=x" }))).toMatchObject({
      issues: [{ path: "url", message: expect.stringMatching(/^must be an address such as redis:/) as unknown }],
    });
  });
});

describe("a write whose reply is lost, under retry()", () => {
  const behindProxy = async (): Promise<{ proxy: FaultProxy; client: Connection }> => {
    const proxy = await proxied(redis);
    return { proxy, client: await own(redis, { url: proxy.url }) };
  };

  it("is made once: it rejects with its op, and is repeated with one that its caller made", async () => {
    const { proxy, client } = await behindProxy();
    const config = createConfig<number>(client, "limit", { prefix: redis.prefix, default: 0 });
    redis.defer(() => config.close());
    await config.set(1);
    const first = losingOnce(proxy, () => config.set(2, { deadlineMs: 300 }));
    const lost = await rejection(retry(first.attempt, { waitMs: 20_000 }));
    expect(lost).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME", op: expect.any(String) as unknown, retryable: false });
    await until(async () => (await config.set(2, { op: String(lost["op"]) })).revision === 2);
    const second = losingOnce(proxy, () => config.set(3, { deadlineMs: 300, op: "mine" }));
    expect(await retry(second.attempt, { waitMs: 20_000 })).toMatchObject({ revision: 3 });
    expect([first.tries(), second.tries() > 1]).toEqual([1, true]);
    expect((await config.history()).map(({ value }) => value)).toEqual([3, 2, 1]);
  });

  it("is repeated where it switches a flag", async () => {
    const { proxy, client } = await behindProxy();
    const flags = createFlags(client, { beta: { whenUnknown: false } }, { prefix: redis.prefix });
    redis.defer(() => flags.close());
    await flags.set("beta", false);
    const set = (): Promise<void> => flags.set("beta", true, { deadlineMs: 300 });
    // It reads before it writes.
    const { attempt, tries } = losingOnce(proxy, set, { client, script: scripts.set });
    const failures: unknown[] = [];
    await retry(attempt, { waitMs: 20_000 }, (error) => {
      const { code, op, retryable } = error as KitUnknownOutcomeError;
      failures.push([code, op]);
      return retryable;
    });
    expect([flags.isOn("beta"), tries() > 1, failures[0]]).toEqual([true, true, ["KIT_UNKNOWN_OUTCOME", undefined]]);
  });
});

describe("flags: maxStaleMs", () => {
  it("holds when the server falls silent without a word, though nothing has noticed it yet", async () => {
    const proxy = await proxied(redis);
    const client = await own(redis, { url: proxy.url });
    const definitions = { beta: { whenUnknown: false } };
    const flags = createFlags(client, definitions, { prefix: redis.prefix, maxStaleMs: 600, deadlineMs: 60_000 });
    redis.defer(() => client.disconnect());
    await flags.ready();
    await flags.set("beta", true);
    await until(() => flags.state === "fresh");
    proxy.down.hole = true;
    await until(() => !flags.isOn("beta"), 2_000);
    expect([flags.state, flags.get("beta").isKnown]).toEqual(["fresh", false]);
    proxy.heal();
    proxy.resetAll();
    await flags.close();
  });

  it("is kept by looking twice as often, so that a quiet server's answers stay known", async () => {
    const definitions = { beta: { whenUnknown: true } };
    const flags = createFlags(redis.client, definitions, { prefix: redis.prefix, maxStaleMs: 2_000 });
    redis.defer(() => flags.close());
    await flags.ready();
    await until(() => flags.state === "fresh");
    const before = await callsOf(redis, "hmget");
    const known: boolean[] = [];
    await until(async () => {
      known.push(flags.get("beta").isKnown);
      return (await callsOf(redis, "hmget")) - before >= 3;
    });
    expect(known.includes(false)).toBe(false);
  });
});
