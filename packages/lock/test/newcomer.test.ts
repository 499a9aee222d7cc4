import { connect } from "@kit/core";
import { startRedis } from "@kit/testing";
import { expect, it } from "vitest";
import { createLock } from "../src/index.js";

it("hands a free lock to the first living waiter, also by the first command that a process ever sends", async () => {
  await using server = await startRedis();
  await using holderClient = await connect(server.url);
  await using waiterClient = await connect(server.url);
  await using newcomerClient = await connect(server.url);
  await using holder = createLock(holderClient);
  await using waiter = createLock(waiterClient);
  await using newcomer = createLock(newcomerClient);
  const gone = await holder.acquire("x", { leaseMs: 60_000, renew: false });
  // A waiter that died in the queue: nobody listens on its inbox any more.
  const aliveUntil = Date.now() + 15_000;
  await server.call(
    "HSET",
    "kit:lock:{x}:waiters",
    "#",
    "1",
    "dead",
    `${String(aliveUntil)} 2000 kit:inbox:dead host:1`,
  );
  await server.call("ZADD", "kit:lock:{x}:queue", "1", "dead");
  await server.call("PEXPIRE", "kit:lock:{x}:waiters", "16000");
  await server.call("PEXPIRE", "kit:lock:{x}:queue", "16000");
  const queued = new Promise((resolve) => waiter.once("waiting", resolve));
  const waiting = waiter.acquire("x", { waitMs: 1_500 });
  await queued;
  await server.call("DEL", "kit:lock:{x}:lease");

  const asking = newcomer.acquire("x", { waitMs: 1_000 }).catch(() => undefined);
  const lease = await waiting;

  expect(BigInt(lease.fencingToken)).toBeGreaterThan(BigInt(gone.fencingToken));
  await lease.release();
  await (await asking)?.release();
  expect(await gone.release()).toBe("not-held");
});
