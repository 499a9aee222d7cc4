import { connect, KitError } from "@kit/core";
import { pause } from "@kit/core/toolkit";
import { createLock, type Lock } from "@kit/lock";
import { FaultProxy, type RedisServer, startRedis } from "@kit/testing";
import { afterAll, beforeAll, expect, it } from "vitest";

const names = ["bow", "chest", "lamp", "sword", "well"];
const [callers, rounds, clients, faultMs] = [200, 2, 4, 60];

let server: RedisServer;
let proxy: FaultProxy;
const locks: Lock[] = [];
const ends: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  server = await startRedis();
  proxy = await FaultProxy.start({ port: server.nodes[0]?.port ?? 0 });
  for (let index = 0; index < clients; index++) {
    const client = await connect(`redis://127.0.0.1:${String(proxy.port)}`);
    const lock = createLock(client);
    lock.on("error", () => undefined);
    locks.push(lock);
    ends.push(() => lock.close({ timeoutMs: 0 }).then(() => client.close()));
  }
});
afterAll(async () => {
  for (const end of ends) await end();
  await proxy.close();
  await server.stop();
});

/** Each is over at once, so that no lease ends before its holder gives it back. */
const faults: readonly (() => Promise<unknown> | number)[] = [
  () => server.call("SCRIPT", "FLUSH"),
  () => server.call("CLIENT", "KILL", "TYPE", "pubsub"),
  () => server.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"),
  () => (proxy.down.cutNext = 2),
  () => (proxy.up.cutNext = 2),
];

/** Neighbours in a circle, the third name between them, and all five; every other caller the other way round. */
const namesOf = (index: number): readonly string[] => {
  const from = (step: number): string => names[(index + step) % names.length] ?? "";
  const own = index % 20 === 0 ? names : index % 3 === 0 ? [from(0), from(2)] : [from(0), from(1), from(2)];
  return index % 2 === 0 ? own : own.toReversed();
};

it("two hundred callers of five names in opposite orders do not wait for each other forever, under faults", async () => {
  const inside = new Set<string>();
  const newest = new Map<string, bigint>();
  const found = { sections: 0, overlaps: 0, shrunk: 0 };
  const enter = async (fencingTokens: ReadonlyMap<string, string>): Promise<void> => {
    found.sections++;
    for (const [name, text] of fencingTokens) {
      if (inside.has(name)) found.overlaps++;
      inside.add(name);
      if (BigInt(text) <= (newest.get(name) ?? 0n)) found.shrunk++;
      newest.set(name, BigInt(text));
    }
    await new Promise(setImmediate);
    for (const name of fencingTokens.keys()) inside.delete(name);
  };
  let isOver = false;
  const loop = async (own: readonly string[], lock: Lock): Promise<void> => {
    for (let round = 0; round < rounds && !isOver;) {
      let isInside = false;
      const routine = (set: { readonly fencingTokens: ReadonlyMap<string, string> }): Promise<void> => {
        isInside = true;
        return enter(set.fencingTokens);
      };
      // A call whose outcome is unknown, or that found no server, is made again.
      await lock.usingAll(own, routine, { waitMs: 60_000 }).catch(async (error: unknown) => {
        if (!KitError.is(error) || error.code === "KIT_LOCK_TIMEOUT") throw error;
        await pause(20);
      });
      if (isInside) round++;
    }
  };
  let injected = 0;
  let sections = 0;
  // The next comes when work has gone on after the last: on a busy machine nobody would get anywhere otherwise.
  const nemesis = setInterval(() => {
    if (found.sections === sections) return;
    sections = found.sections;
    void faults[injected++ % faults.length]?.();
  }, faultMs);
  try {
    await Promise.all(Array.from({ length: callers }, (_, index) => loop(namesOf(index), locks[index % clients]!)));
  } finally {
    clearInterval(nemesis);
    isOver = true;
  }
  expect(found).toEqual({ sections: callers * rounds, overlaps: 0, shrunk: 0 });
  expect(injected).toBeGreaterThan(faults.length);
  expect(proxy.stats.resets).toBeGreaterThan(0);
  // Nobody holds a name, or waits for one.
  const set = await locks[0]!.acquireAll(names, { waitMs: 20_000 });
  expect(await set.release()).toBe("released");
});
