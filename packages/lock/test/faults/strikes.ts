import { pause } from "@kit/core";
import { eventually } from "@kit/testing";
import { clock } from "./clock.mjs";
import { type Lab, leaseMs, processState, type Strike } from "./lab.js";

// Each strike resolves with 1 if it struck home, as told by what it broke and not by having been dealt, else with 0.

const hasGrown = async (count: () => number | Promise<number>, before: number): Promise<void> => {
  await eventually(async () => {
    if ((await count()) <= before) throw new Error("it struck nothing");
  });
};

/** The servers forget their scripts: a call then met NOSCRIPT. */
export const flushScripts: Strike = async (lab) => {
  const misses = (): Promise<number> => lab.count("errorstats", /errorstat_NOSCRIPT:count=(\d+)/);
  const before = await misses();
  await Promise.all(lab.server.nodes.map((node) => node.call("SCRIPT", "FLUSH")));
  await hasGrown(misses, before);
  return 1;
};

const killClients = async (lab: Lab, ...filter: string[]): Promise<number> => {
  const killed = await Promise.all(lab.server.nodes.map((node) => node.call("CLIENT", "KILL", ...filter)));
  return killed.reduce<number>((sum, count) => sum + Number(count), 0);
};

/** One command connection of a worker, or the command connections of all: so many were closed. */
export const killCommandConnections: Strike = async (lab) => {
  if (lab.random() < 0.5) return Math.min(1, await killClients(lab, "TYPE", "normal", "SKIPME", "yes"));
  const node = lab.pick(lab.server.nodes);
  const list = String(await node?.call("CLIENT", "LIST", "TYPE", "normal"));
  const ids = [...list.matchAll(/^id=(\d+) .* name=w\d+ /gm)].map(([, id = ""]) => id);
  const id = lab.pick(ids);
  return id === undefined ? 0 : Number(await node?.call("CLIENT", "KILL", "ID", id));
};

/** Every subscriber. */
export const killSubscribers: Strike = async (lab) => Math.min(1, await killClients(lab, "TYPE", "pubsub"));

/** `kill -9` of a process that holds a lock: the lock is still its own when it is gone. */
export const killHolder: Strike = async (lab) => {
  // So that no less than four contend at any time.
  await Promise.all(lab.workers.map((worker) => worker.started()));
  const { worker } = await lab.someHolder({ isWaitedFor: true });
  await worker.kill();
  lab.spawn();
  const orphaned = (await lab.holders()).filter((holder) => holder.worker === worker.id);
  for (const { name, fence, seenAt, endsAt, waiting } of orphaned)
    lab.deaths.push({ name, worker: worker.id, fence, foundAt: seenAt, leaseEndsAt: endsAt, waiting });
  return Math.min(1, orphaned.length);
};

const stopped = async (pid: number): Promise<void> => {
  await eventually(() => {
    if (processState(pid) !== "T") throw new Error("it runs");
  });
};

/** SIGSTOP of a process that holds a lock, until the server has given it up; then SIGCONT. */
export const stopHolder: Strike = async (lab) => {
  const { worker } = await lab.someHolder();
  worker.signal("SIGSTOP");
  await stopped(worker.pid);
  const held = (await lab.holders()).filter((holder) => holder.worker === worker.id);
  if (held.length > 0) await pause(leaseMs * lab.between(1.1, 2));
  const now = new Set((await lab.holders()).map(({ token }) => token));
  worker.signal("SIGCONT");
  return held.some(({ token }) => !now.has(token)) ? 1 : 0;
};

/** A holder blocks its own event loop for longer than its lease; here it is only waited for. */
export const awaitBlocked: Strike = async (lab) => {
  await hasGrown(() => lab.logged("blocked"), lab.logged("blocked"));
  return 1;
};

/** The server is stopped for 0.5 to 2 leases: connections stay open, nothing is answered. */
export const silenceServer: Strike = async (lab) => {
  lab.node.pause();
  await stopped(lab.node.pid);
  await pause(leaseMs * lab.between(0.5, 2));
  lab.node.resume();
  await lab.healed();
  return 1;
};

/** The link swallows what is sent one way, the other way or both ways, for 0.5 to 2 leases: bytes were lost. */
export const swallow: Strike = async (lab) => {
  const { proxy } = lab;
  if (!proxy) throw new Error("The workers do not go through a proxy");
  const before = proxy.stats.droppedBytes;
  const way = lab.between(0, 3);
  proxy.up.hole = way < 2;
  proxy.down.hole = way > 1;
  await pause(leaseMs * lab.between(0.5, 2));
  const lost = proxy.stats.droppedBytes - before;
  proxy.heal();
  await lab.healed();
  return Math.min(1, lost);
};

/** A reply is lost, and its connection with it. */
export const loseReply: Strike = async (lab) => {
  const { proxy } = lab;
  if (!proxy) throw new Error("The workers do not go through a proxy");
  const before = proxy.stats.resets;
  proxy.down.cutNext = 1;
  await hasGrown(() => proxy.stats.resets, before);
  return 1;
};

const restart = async (lab: Lab, onDead?: () => void): Promise<number> => {
  const { pid } = lab.node;
  await lab.node.kill();
  onDead?.();
  await pause(lab.between(0, 300));
  await lab.node.start();
  return lab.node.pid === pid ? 0 : 1;
};

/** `kill -9` of the server, which comes back with all it had acknowledged. */
export const killServer: Strike = async (lab) => {
  const struck = await restart(lab);
  await lab.healed();
  return struck;
};

/** `kill -9` of the server, which comes back empty. */
export const emptyServer: Strike = async (lab) => {
  // Between these two instants: what the server still did before it died is lost, too.
  const noteLoss = (): void => void lab.dataLosses.push(clock());
  noteLoss();
  const struck = await restart(lab, noteLoss);
  const keys = Number(await lab.node.call("DBSIZE"));
  await lab.healed();
  // Whatever is there already came back with the workers, and is no more than their locks need.
  return keys <= 16 ? struck : 0;
};
