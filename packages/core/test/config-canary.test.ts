import { tracingChannel } from "node:diagnostics_channel";
import { readFileSync } from "node:fs";
import { inspect } from "node:util";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import { FaultProxy, startRedis, useRedis } from "@kit/testing";
import * as valibot from "valibot";
import {
  ConfigConflictError,
  ConfigInvalidError,
  createComponent,
  createConfig,
  createFlags,
  type StandardSchema,
  withComponent,
} from "../src/config/index.js";
import { KitError } from "../src/index.js";
import { exposures } from "@tooling/vitest/helpers";
import { own, rejection, until } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys: [/:config:\{/] });

/** In every value and password; in no name and no key. */
const canary = "CANARY";
const value = { token: `${canary}-1`, nested: [{ pin: `${canary}"\n2` }], n: 424242 };
const secrets = [canary, "424242"];

/** All that the diagnostics channels publish. */
const traces = (): object[] => {
  const reported: object[] = [];
  for (const name of [
    "config.ready",
    "config.get",
    "config.set",
    "config.history",
    "config.rollback",
    "component.open",
    "component.ready",
  ]) {
    const channel = tracingChannel<object, object>(`kit:${name}`);
    const keep = (context: object): unknown => reported.push({ ...context, channel: name });
    const subscribers = { start: keep, end: keep, asyncStart: keep, asyncEnd: keep, error: keep };
    channel.subscribe(subscribers);
    redis.defer(() => channel.unsubscribe(subscribers));
  }
  return reported;
};
const names = (reported: readonly object[]): Set<string> =>
  new Set(reported.map((one) => (one as { channel: string }).channel));
const shows = (whole: unknown): boolean =>
  secrets.some((secret) => inspect(whole, { depth: 9, showHidden: true, getters: true }).includes(secret));

it("neither errors nor traces nor logged objects show a value", async () => {
  const reported = traces();
  const quoting: StandardSchema<typeof value> = {
    "~standard": {
      version: 1,
      vendor: "test",
      validate: (given) => {
        const text = JSON.stringify(given);
        if (text.includes("throws")) throw Object.assign(new Error(text), { name: `Error ${canary}-1 throws` });
        if (!text.includes("bad")) return { value: given as typeof value };
        const { token, nested, n } = given as typeof value;
        const words = `received ${JSON.stringify(token)}, ${nested[0]!.pin}, '${JSON.stringify(nested[0]!.pin)}' and ${String(n)}`;
        return { issues: [{ message: words, path: ["token"] }] };
      },
    },
  };
  const config = createConfig(redis.client, "vault", { prefix: redis.prefix, schema: quoting, maxBytes: 200 });
  redis.defer(() => config.close());
  const errors: unknown[] = [];
  config.on("error", (error) => errors.push(error));
  config.on("state", (...facts) => errors.push(facts));
  const version = await config.set(value);
  await config.ready();
  const entry = `${redis.prefix}:config:{vault}:entry`;
  for (const broken of ["bad", "throws"]) {
    const given = { ...value, token: `${value.token} ${broken}` };
    errors.push(await rejection(config.set(given)));
    await redis.client.hset(entry, {
      revision: Number(await redis.client.hget(entry, "revision")) + 1,
      value: JSON.stringify(given),
    });
    errors.push(await rejection(config.get()));
  }
  errors.push(await rejection(config.set({ ...value, more: canary.repeat(100) } as never)));
  errors.push(await rejection(config.set({ ...value, big: 1n, token: canary } as never)));
  errors.push(await rejection(config.set(value, { expected: version })));
  await redis.client.hset(entry, { revision: 9, value: `{"token": "${canary}` });
  await redis.client.publish(`${redis.prefix}:config:{vault}:changed`, "x");
  await until(() => config.state === "degraded");
  errors.push(await rejection(config.get()), await rejection(config.rollback(77)));
  await config.rollback(1);
  await config.history();
  expect(errors.some((error) => error instanceof ConfigConflictError)).toBe(true);
  expect(errors.length).toBeGreaterThan(10);
  for (const error of errors) expect(exposures(error, secrets)).toEqual([]);
  expect(names(reported)).toEqual(
    new Set(["config.ready", "config.get", "config.set", "config.history", "config.rollback"]),
  );
  expect([shows(reported), shows(config), shows(errors)]).toEqual([false, false, false]);
});

it("a schema's own words do not show what they quote", async () => {
  const schema = valibot.strictObject({
    mode: valibot.picklist(["fast", "slow"]),
    port: valibot.number(),
    on: valibot.boolean(),
  });
  const config = createConfig(redis.client, "words", { prefix: redis.prefix, schema });
  redis.defer(() => config.close());
  const error = await rejection(config.set({ mode: canary, port: `${canary}-2`, on: 7, more: `${canary}-3` } as never));
  expect(exposures(error, [canary])).toEqual([]);
  expect(error["issues"]).toMatchObject([{ path: "mode" }, { path: "port" }, { path: "on" }, { path: "more" }]);
  expect(error.message).toContain("port: Invalid type: Expected number but received");
});

it("a schema's own words do not show a part of what they shorten", async () => {
  const secret = `${canary}-abcdefghijklmnopqrstuvwxyz`;
  const schema = valibot.pipe(
    valibot.string(),
    valibot.check(
      (text) => text === "",
      ({ input }) => `Expected less than "${String(input).slice(3, 20)}..."`,
    ),
  );
  const config = createConfig(redis.client, "cut", { prefix: redis.prefix, schema });
  redis.defer(() => config.close());
  const error = await rejection(config.set(secret));
  expect(exposures(error, ["CANARY", "ARY-abcdef", "abcdefgh"])).toEqual([]);
  expect(error["issues"]).toEqual([{ path: "", message: "does not match the schema" }]);
});

it("a value of very many short texts is refused without being shown", async () => {
  const codes = Array.from({ length: 40_000 }, (_, index) => (index + 1296).toString(36).slice(0, 3));
  const schema = valibot.array(valibot.number());
  const config = createConfig(redis.client, "codes", { prefix: redis.prefix, schema, maxBytes: 800_000 });
  redis.defer(() => config.close());
  const error = await rejection(config.set([...codes, canary] as never));
  expect(error).toBeInstanceOf(ConfigInvalidError);
  expect(exposures(error, [canary, "zz9"])).toEqual([]);
  const issue = { path: "0", message: 'Invalid type: Expected number … received "…"' };
  const { issues } = error as unknown as ConfigInvalidError;
  expect([issues.length, issues[0]]).toEqual([10, issue]);
});

it("a component and flags show neither password nor address nor reason", async () => {
  const reported = traces();
  const password = `${canary}-pass`;
  const server = await startRedis({ password });
  redis.defer(() => server.stop());
  const proxy = await FaultProxy.start({ port: server.nodes[0]!.port });
  redis.defer(() => proxy.close());
  const logs = createComponent(redis.client, "logs", {
    prefix: redis.prefix,
    secrets: (name) => {
      if (name === "THROWS") throw new Error(password);
      return name === "PASS" ? password : `${canary}-wrong`;
    },
  });
  redis.defer(() => logs.close());
  const facts: unknown[] = [];
  for (const event of ["swap", "degraded", "forced", "error"] as const) logs.on(event, (...given) => facts.push(given));
  const url = `redis://127.0.0.1:${String(proxy.port)}`;
  for (const wrong of [
    `redis://:${password}@h`,
    `redis://u:${password}@h:1`,
    `redis://u:${password}/x@h`,
    `${password}:x@`,
    `redis://h?password=${password}`,
    `http://${password}`,
  ])
    facts.push(await rejection(logs.config.set({ url: wrong })));
  expect(facts[0]).toMatchObject({
    code: "KIT_CONFIG_INVALID",
    issues: [{ path: "url", message: expect.stringContaining("contains a password") as unknown }],
  });
  await redis.client.hset(`${redis.prefix}:config:{logs}:entry`, {
    layout: 1,
    epoch: 1,
    revision: 1,
    at: 1,
    value: JSON.stringify({ url: `redis://:${password}@127.0.0.1` }),
  });
  await redis.client.publish(`${redis.prefix}:config:{logs}:changed`, "x");
  facts.push(await rejection(logs.ready({ waitMs: 300 })));
  await logs.config.set({ url, secret: "PASS" });
  await logs.ready({ waitMs: 10_000 });
  expect(await withComponent(logs, async (db) => await db.ping())()).toBe("PONG");
  for (const secret of ["WRONG", "THROWS"]) {
    const degraded = new Promise((resolve) => logs.once("degraded", resolve));
    await logs.config.set({ url, secret });
    facts.push(await degraded);
  }
  const custom = createComponent(redis.client, "logs", {
    prefix: redis.prefix,
    open: () => {
      throw Object.assign(new Error(password), { password });
    },
    close: () => undefined,
  });
  redis.defer(() => custom.close());
  facts.push(await rejection(custom.ready()));
  expect(facts.filter((fact) => KitError.is(fact)).length).toBe(10);
  for (const fact of facts) expect(exposures(fact, [canary])).toEqual([]);
  expect([exposures(logs, [canary]), shows(reported), names(reported).has("component.open")]).toEqual([
    [],
    false,
    true,
  ]);

  const flags = createFlags(await own(redis), { maintenance: { whenUnknown: false } }, { prefix: redis.prefix });
  redis.defer(() => flags.close());
  await flags.set("maintenance", true, { reason: `${canary} ends` });
  expect([shows(flags), flags.get("maintenance").reason]).toEqual([false, `${canary} ends`]);
});

it("raises every code that configuration has, somewhere in these tests", () => {
  const read = (file: string): string => readFileSync(new URL(file, import.meta.url), "utf8");
  const codes = new Set([...read("../src/config/errors.ts").matchAll(/"(KIT_[A-Z_]+)"/g)].map(([, code]) => code!));
  const tests = ["config-behaviour.ts", "config-component.test.ts", "config-following.test.ts"].map(read).join("\n");
  expect([...codes].filter((code) => !tests.includes(code))).toEqual([]);
});
