import { eventually, useRedis } from "@kit/testing";
import type { Redis } from "ioredis";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import { createQueue } from "../src/index.js";
import { permanentKeys } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });

it("takes a job immediately if a wait popped its wake-up and the step was refused", async () => {
  const user = `worker-${redis.prefix}`;
  const acl = (...rules: string[]): Promise<unknown> => redis.server.call("ACL", "SETUSER", user, ...rules);
  await acl("on", ">pass", "~*", "&*", "+@all");
  redis.defer(() => redis.server.call("ACL", "DELUSER", user));
  const queue = createQueue(redis.connect({ username: user, password: "pass" }) as Redis, "mail", {
    prefix: redis.prefix,
  });
  redis.defer(() => queue.close());
  const producer = createQueue(redis.client as Redis, "mail", { prefix: redis.prefix });
  redis.defer(() => producer.close());
  const ran: unknown[] = [];
  const errors: unknown[] = [];
  const worker = queue.work({ send: ({ data }) => void ran.push(data) });
  worker.on("error", (error) => errors.push(error));
  await producer.add("send", 1);
  await eventually(() => expect(ran).toEqual([1]));
  await eventually(async () => expect(String(await redis.server.call("CLIENT", "LIST"))).toContain("cmd=bzpopmin"));
  await acl("-evalsha", "-eval");
  await producer.add("send", 2);
  await eventually(() => expect(errors.length).toBeGreaterThan(0));
  await acl("+evalsha", "+eval");
  const startedAt = performance.now();
  await eventually(() => expect(ran).toEqual([1, 2]), { timeoutMs: 30_000 });
  // A wait that begins anew ends after 13 s at the earliest.
  expect(performance.now() - startedAt).toBeLessThan(11_000);
});
