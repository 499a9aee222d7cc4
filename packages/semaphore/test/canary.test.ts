import { once } from "node:events";
import { readFileSync } from "node:fs";
import { inspect } from "node:util";
import { connect, KitError } from "@kit/core";
import { startRedis, useRedis } from "@kit/testing";
import { exposures, recordTold, rejection, tappedTokens, withoutOp } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { createSemaphore, type SemaphoreOptions } from "../src/index.js";
import { semaphoreKeys } from "../src/keys.js";
import { name } from "./harness.js";

const redis = useRedis(vitest);

/** Every password and every stored text holds it. Names, tenants and holders are for people to see: they do not. */
const canary = "CANARY";
const prefix = "shown";
const keys = semaphoreKeys(prefix, name);

const raised = new Set<string>();

/** A group on a server with a password, all that it sent, and all that it reported. */
const guarded = async (options: Partial<SemaphoreOptions> = {}) => {
  const server = await startRedis({ password: `${canary}-pass` });
  redis.defer(() => server.stop());
  const client = await connect({ url: server.url, deadlineMs: 10_000 });
  redis.defer(() => client.close());
  const tokens = tappedTokens(client);
  const settings = { permits: 3, permitsPerTenant: 2, prefix, deadlineMs: 1_000, holder: "shown", ...options };
  const group = createSemaphore(client, name, settings);
  redis.defer(() => group.close({ timeoutMs: 0 }));
  const reported = recordTold(
    redis,
    group as Parameters<typeof recordTold>[1],
    ["acquired", "waiting", "stillWaiting", "requeued", "released", "lost", "mismatch", "error"],
    ["kit:semaphore.acquire", "kit:semaphore.release"],
  );
  const raises = async (code: string, promise: Promise<unknown>): Promise<void> => {
    const error = (await rejection(promise)) as Error;
    expect(KitError.is(error) ? error.code : error).toBe(code);
    raised.add(code);
    reported.push(error);
  };
  const expectSilence = (): void => {
    expect(tokens.size).toBeGreaterThan(0);
    for (const one of reported) expect(exposures(withoutOp(one), [canary, ...tokens])).toEqual([]);
    expect(exposures(group, [canary, ...tokens])).toEqual([]);
  };
  return { server, tokens, group, raises, expectSilence };
};
const tenant = "a";

it("a logged permit shows the caller's fields, and not its token", async () => {
  const { group } = await guarded();
  const permit = await group.acquire({ tenant });
  const { token, weight, holder, leaseMs } = permit;
  expect(token).toMatch(/^[\da-f-]{36}$/);
  await permit.release();
  const logged = inspect(permit, { depth: 9, showHidden: true, breakLength: Infinity });
  const shown = { name, weight, tenant, holder, state: "released", leaseMs, remainingMs: 0 };
  expect(logged).toBe(`Permit ${inspect(shown, { breakLength: Infinity })}`);
  expect(JSON.parse(JSON.stringify(permit))).toEqual({ name, weight, tenant });
  // Nothing but the property of that name has it.
  expect(exposures(permit, [token])).toEqual([".token"]);
});

describe("neither password nor token nor stored text is shown by any error, event or trace", () => {
  it("of a group that works as it should", async () => {
    const { server, group, raises, tokens, expectSilence } = await guarded({ maxWaiters: 1 });
    const permit = await group.acquire({ tenant, weight: 2 });
    await raises("KIT_SEMAPHORE_TIMEOUT", group.acquire({ tenant, waitMs: 50 }));
    await raises("KIT_SEMAPHORE_WEIGHT", group.acquire({ tenant, weight: 3 }));
    const waiting = group.acquire({ tenant });
    await once(group as never, "waiting");
    await raises("KIT_SEMAPHORE_QUEUE_FULL", group.acquire({ tenant }));
    expect(exposures(await group.inspect(), [canary, ...tokens])).toEqual([]);
    await permit.release();
    const text = (await waiting).serialise();
    await server.call("DEL", keys.permits);
    await raises("KIT_PERMIT_LOST", group.resume(text));
    await raises("KIT_PERMIT_LOST", (await waiting).extend());
    await group.close();
    await raises("KIT_CLOSED", group.acquire({ tenant }));
    expectSilence();
  });
});

it("every code of the semaphore's own was raised", () => {
  const source = readFileSync(new URL("../src/errors.ts", import.meta.url), "utf8");
  const own = new Set([...source.matchAll(/"(KIT_[A-Z_]+)"/g)].map(([, code]) => code!));
  expect(own.size).toBe(4);
  expect([...own].filter((code) => !raised.has(code))).toEqual([]);
});
