// A lock on three independent servers: ours, a peer, and the fewest commands.
import { createHash, randomUUID } from "node:crypto";
import { pinned } from "../../pins.js";
import { connected } from "../../clients.js";
import { compareAndDelete, type Definition, type LockCaller, type LockSetup, neverTold } from "./lock-caller.js";

/** Of ours: how long a server has for its vote. */
export const nodeTimeoutMs = 30;

/** A client for each server, on a connection of its own. */
const clientsOf = async <Client>(
  urls: readonly string[],
  { isLastSilent = false }: LockSetup,
  connect: (url: string) => Promise<Client>,
): Promise<Client[]> => {
  const clients = await Promise.all(urls.slice(0, -1).map(connect));
  const last = urls.at(-1) ?? "";
  if (!isLastSilent) return [...clients, await connect(last)];
  const { FaultProxy } = await import("@kit/testing");
  const proxy = await FaultProxy.start({ port: Number(new URL(last).port) });
  const client = await connect(proxy.url);
  proxy.up.hole = proxy.down.hole = true;
  return [...clients, client];
};

const kit: Definition = {
  id: "quorum lock",
  peer: "kit",
  settings: `defaults but deadlineMs: 20000, restartGuardMs: 0 (the servers are new), nodeTimeoutMs: ${String(nodeTimeoutMs)}`,
  open: async (url, setup, connect, urlsBeside) => {
    const { createQuorumLock } = await import("@kit/lock/quorum");
    const { leaseMs, renew } = setup;
    const options = { leaseMs, renew, deadlineMs: 20_000, restartGuardMs: 0, nodeTimeoutMs };
    const lock = createQuorumLock(await clientsOf([url, ...urlsBeside], setup, connect), options);
    const using: LockCaller["using"] = (name, routine) => lock.using(name, () => routine(neverTold));
    return { caller: () => ({ using }), renews: true, leaseKey: (name) => name };
  },
};

const redlock5: Definition = {
  id: "redlock5 of 3 servers",
  peer: pinned("redlock5"),
  settings: "using(), renewed; goes on with the answers of a majority",
  open: async (url, setup, _connect, urlsBeside) => {
    const { default: Redlock5 } = await import("redlock5");
    const redlock = new Redlock5(await clientsOf([url, ...urlsBeside], setup, connected));
    const using: LockCaller["using"] = (name, routine) =>
      redlock.using([name], setup.leaseMs, async () => routine(neverTold));
    return { caller: () => ({ using }), renews: true, leaseKey: (name) => name };
  },
};

/** Resolves when two of three have. */
const majority = (answers: readonly Promise<unknown>[]): Promise<void> =>
  new Promise((resolve, reject) => {
    let missing = 2;
    for (const answer of answers)
      answer.then(() => {
        if (--missing === 0) resolve();
      }, reject);
  });

const raw: Definition = {
  id: "raw quorum",
  peer: "floor",
  settings:
    "SET NX PX on three servers at once, then compare-and-delete by EVALSHA on all; two answers are enough; no waiting, validity, renewal or clean-up",
  open: async (url, setup, _connect, urlsBeside) => {
    const clients = await clientsOf([url, ...urlsBeside], setup, connected);
    const sha = createHash("sha1").update(compareAndDelete).digest("hex");
    await majority(clients.map((redis) => redis.script("LOAD", compareAndDelete)));
    const using: LockCaller["using"] = async (name, routine) => {
      const token = randomUUID();
      await majority(clients.map((redis) => redis.set(name, token, "PX", setup.leaseMs, "NX")));
      await routine(neverTold);
      await majority(clients.map((redis) => redis.evalsha(sha, 1, name, token)));
    };
    return { caller: () => ({ using }), renews: false, leaseKey: (name) => name };
  },
};

export const quorumDefinitions: readonly Definition[] = [kit, redlock5, raw];
