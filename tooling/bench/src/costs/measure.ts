// Measures all costs, on servers of its own.
import { once } from "node:events";
import { cpus } from "node:os";
import { Worker } from "node:worker_threads";
import { type RedisServer, startRedis } from "@kit/testing";
import { median } from "../statistics.js";
import type { Cost, Costs, IdleCost, OperationCost, StoredCost } from "./costs.js";
import { meter } from "./meter.js";
import { idle, operations, stored } from "./operations.js";
import {
  type CostedOperation,
  type IdleObject,
  type IdleTask,
  type Opened,
  Scene,
  type StoredObject,
} from "./scene.js";

const rounds = 2;

/** The name in two parts, as it is kept. */
const parted = ({ name, about }: IdleObject | StoredObject | CostedOperation) => {
  const [from = "", ...rest] = name.split(": ");
  return { package: from, name: rest.join(": "), about };
};

const empty = (server: RedisServer) => Promise.all(server.nodes.map((node) => node.call("FLUSHALL")));

const measureOperation = async (
  server: RedisServer,
  { open, count, callers }: CostedOperation,
  times = rounds,
): Promise<Cost> => {
  await empty(server);
  await using all = new Scene(server);
  const opened: Opened[] = [];
  for (let index = 0; index < callers; index++) {
    const scene = new Scene(server, index);
    all.atEnd(() => scene[Symbol.asyncDispose]());
    opened.push(await open(scene));
  }
  const once = async (each: number): Promise<Cost> => {
    for (const { prepare } of opened) await prepare?.(each);
    return meter(server, () => Promise.all(opened.map(({ run }) => run(each))));
  };
  const each = Math.ceil(count / callers);
  // Scripts are loaded, and connections opened.
  await once(Math.ceil(each / 4));
  const costs: Cost[] = [];
  for (let round = 0; round < times; round++) costs.push(await once(each));
  const per = (name: keyof Cost, middle = median): number => middle(costs.map((cost) => cost[name])) / (each * callers);
  return {
    commands: per("commands"),
    innerCommands: per("innerCommands"),
    bytesIn: per("bytesIn"),
    bytesOut: per("bytesOut"),
    // A busy machine only adds to the CPU, so that the least is nearest.
    cpuMicros: per("cpuMicros", (values) => Math.min(...values)),
  };
};

/** On a single server, or one with the operation's replicas; and on the Cluster. */
const operationCost = async (
  single: RedisServer,
  cluster: RedisServer,
  one: CostedOperation,
): Promise<OperationCost> => {
  const replicated = one.replicas > 0 ? await startRedis({ replicas: one.replicas }) : undefined;
  const cost = await measureOperation(replicated ?? single, one);
  await replicated?.stop();
  const onCluster = one.isOnCluster ? await measureOperation(cluster, one, 1) : undefined;
  return { ...parted(one), ...cost, ...(onCluster && { commandsOnCluster: onCluster.commands }) };
};

/** The memory of `count` of them, less that of one: the clients, and the keys that all share. */
const storedCost = async (server: RedisServer, one: StoredObject): Promise<StoredCost> => {
  const usageOf = async (count: number) => {
    await empty(server);
    await using scene = new Scene(server);
    await one.store(scene, count);
    const bytes = Number(/^used_memory:(\d+)/m.exec(String(await server.call("INFO", "memory")))?.[1]);
    return { bytes, keys: Number(await server.call("DBSIZE")) };
  };
  const [least, all] = [await usageOf(1), await usageOf(one.count)];
  const per = (part: keyof typeof all): number => (all[part] - least[part]) / (one.count - 1);
  return { ...parted(one), bytes: per("bytes"), keys: per("keys") };
};

/**
 * Measures all idle objects at the same time, each in its own thread. On a Cluster, the objects of one process share some commands, so
 * together they would cost less than each alone.
 */
const idleCosts = async (...servers: readonly [single: RedisServer, cluster: RedisServer]): Promise<IdleCost[]> => {
  await Promise.all(servers.map(empty));
  const urls = servers.map(({ url }) => url);
  const threads: Worker[] = [];
  try {
    for (const index of idle.keys()) {
      const thread = new Worker(new URL("./idle.js", import.meta.url), {
        workerData: { index, urls } satisfies IdleTask,
      });
      threads.push(thread);
      // It has opened its object.
      await once(thread, "message");
    }
    const counting = threads.map((thread) => once(thread, "message") as Promise<[onEach: [number, number]]>);
    for (const thread of threads) thread.postMessage("count");
    return (await Promise.all(counting)).map(([[commandsPerHour, commandsPerHourOnCluster]], index) => ({
      ...parted(idle[index]!),
      ...{ commandsPerHour, commandsPerHourOnCluster },
    }));
  } finally {
    await Promise.all(threads.map((thread) => thread.terminate()));
  }
};

export const measureCosts = async (say: (text: string) => void): Promise<Costs> => {
  await using single = await startRedis();
  await using cluster = await startRedis({ mode: "cluster" });
  const each = async <One extends { readonly name: string }, Result>(
    all: readonly One[],
    measure: (one: One) => Promise<Result>,
  ): Promise<Result[]> => {
    const results: Result[] = [];
    for (const one of all) {
      say(one.name);
      results.push(await measure(one));
    }
    return results;
  };
  const { server, version } = single.version;
  const facts = {
    date: new Date().toISOString(),
    node: process.version,
    redis: `${server} ${version}`,
    machine: `${String(cpus().length)} cores of ${cpus()[0]?.model.trim() ?? "an unknown processor"}`,
    operations: await each(operations, (one) => operationCost(single, cluster, one)),
    stored: await each(stored, (one) => storedCost(single, one)),
  };
  say("idle objects: a minute and a half");
  return { ...facts, idle: await idleCosts(single, cluster) };
};
