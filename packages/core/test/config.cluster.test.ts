import * as vitest from "vitest";
import { expect, it } from "vitest";
import { useRedis } from "@kit/testing";
import { createComponent, createFlags, withComponent } from "../src/config/index.js";
import { slotOf } from "../src/toolkit/index.js";
import { configBehaviour } from "./config-behaviour.js";

const redis = useRedis(vitest, { mode: "cluster", permanentKeys: [/:config:\{/] });

configBehaviour(redis, "cluster");

const address = (): string => redis.server.nodes.map(({ port }) => `127.0.0.1:${String(port)}`).join(",");

it("components and flags have slots of their own, and a component may be a Cluster itself", async () => {
  const flags = createFlags(redis.client, { maintenance: { whenUnknown: true } }, { prefix: redis.prefix });
  redis.defer(() => flags.close());
  await flags.set("maintenance", true, { reason: "move" });
  const components = ["logs", "mail", "search", "stock"].map((name) =>
    createComponent(redis.client, name, { prefix: redis.prefix }),
  );
  redis.defer(() => Promise.all(components.map((component) => component.close())));
  await Promise.all(
    components.map(async (component) => await component.config.set({ url: `redis+cluster://${address()}` })),
  );
  await Promise.all(components.map((component) => component.ready({ waitMs: 10_000 })));
  const count = withComponent(components[0]!, async (db, key: string) => await db.incr(key));
  const counted = await Promise.all(
    Array.from({ length: 30 }, (_, index) => count(`${redis.prefix}:n${String(index)}`)),
  );
  expect(counted).toEqual(Array(30).fill(1));
  redis.permanent("n*");
  const slots = new Set(
    ["flags", "logs", "mail", "search", "stock"].map((name) => slotOf(`${redis.prefix}:config:{${name}}:entry`)),
  );
  expect([slots.size, flags.isOn("maintenance"), components[0]!.state]).toEqual([5, true, "ready"]);
});
