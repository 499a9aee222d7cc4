// Measures all costs, on servers of its own.
import { cpus } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { type RedisServer, startRedis } from "@kit/testing";
import { now } from "@tooling/lab";
import { onSent } from "../sent.js";
import { median } from "../statistics.js";
import type { Cost, Costs, IdleCost, OperationCost, StoredCost } from "./costs.js";
import { meter, per } from "./meter.js";
import { idle, operations, stored } from "./operations.js";
import { type CostedOperation, type IdleObject, type Opened, Scene, type StoredObject } from "./scene.js";

const rounds = 2;
const minuteMs = 60_000;
/** From the first command to the beginning of its minute: longer than what it does together with this command. */
const restMs = 500;
/** The longest period that an idle object may begin with. */
const firstMs = 10_500;

/** The name in two parts, as it is kept. */
const parted = ({ name, about }: IdleObject | StoredObject | CostedOperation) => ({
  package: name.slice(0, name.indexOf(":")),
  name: name.slice(name.indexOf(":") + 2),
  about,
});

type Say = (text: string) => void;

/** The medians over the rounds. A busy machine only adds to the CPU, so that the least is nearest. */
const middle = (costs: readonly Cost[]): Cost => {
  const of = (name: keyof Cost): number => median(costs.map((cost) => cost[name]));
  return {
    commands: of("commands"),
    innerCommands: of("innerCommands"),
    bytesIn: of("bytesIn"),
    bytesOut: of("bytesOut"),
    cpuMicros: Math.min(...costs.map(({ cpuMicros }) => cpuMicros)),
  };
};

const empty = async (server: RedisServer): Promise<void> => {
  await Promise.all(server.nodes.map((node) => node.call("FLUSHALL")));
};

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
    return per(each * callers, await meter(server, () => Promise.all(opened.map(({ run }) => run(each)))));
  };
  const each = Math.ceil(count / callers);
  // Scripts are loaded, and connections opened.
  await once(Math.ceil(each / 4));
  const costs: Cost[] = [];
  for (let round = 0; round < times; round++) costs.push(await once(each));
  return middle(costs);
};

const usage = async (server: RedisServer): Promise<{ readonly bytes: number; readonly keys: number }> => {
  const bytes = /^used_memory:(\d+)/m.exec(String(await server.call("INFO", "memory")))?.[1];
  return { bytes: Number(bytes), keys: Number(await server.call("DBSIZE")) };
};

/** The memory of `count` of them, less that of one: the clients, and the keys that all share. */
const measureStored = async (server: RedisServer, object: StoredObject): Promise<StoredCost> => {
  const { count } = object;
  const usageOf = async (stores: number) => {
    await empty(server);
    await using scene = new Scene(server);
    await object.store(scene, stores);
    return usage(server);
  };
  const [one, all] = [await usageOf(1), await usageOf(count)];
  return {
    ...parted(object),
    bytes: (all.bytes - one.bytes) / (count - 1),
    keys: (all.keys - one.keys) / (count - 1),
  };
};

/** The objects as they are opened on a server of each kind. */
interface Watched {
  readonly scene: Scene;
  readonly object: IdleObject;
  /** When it sent a command. */
  readonly instants: number[];
}

/** In the minute that begins after its first command. */
const inMinute = (instants: readonly number[], startedAt: number): number => {
  const [first = startedAt] = instants;
  const from = first <= startedAt + firstMs ? first + restMs : startedAt;
  return instants.filter((at) => at >= from && at < from + minuteMs).length;
};

/** All are left alone at the same time. */
const measureIdle = async (single: RedisServer, cluster: RedisServer): Promise<IdleCost[]> => {
  await Promise.all([empty(single), empty(cluster)]);
  const watched = idle.map((object) =>
    [single, cluster].map((server): Watched => ({ scene: new Scene(server), object, instants: [] })),
  );
  const ofNone: number[] = [];
  const stop = onSent((connection) => {
    const owner = watched.flat().find(({ scene }) => scene.has(connection));
    (owner?.instants ?? ofNone).push(now());
  });
  try {
    for (const one of watched.flat()) await one.object.open(one.scene);
    // Opening an object starts work that is over by then.
    await sleep(2_000);
    const startedAt = now();
    for (const { instants } of watched.flat()) instants.length = 0;
    await sleep(firstMs + restMs + minuteMs);
    if (ofNone.length > 0) throw new Error(`${String(ofNone.length)} commands were sent by none of the idle objects`);
    return watched.map(([onSingle, onCluster]) => {
      return {
        ...parted(onSingle!.object),
        commandsPerHour: 60 * inMinute(onSingle!.instants, startedAt),
        commandsPerHourOnCluster: 60 * inMinute(onCluster!.instants, startedAt),
      };
    });
  } finally {
    stop();
    for (const { scene } of watched.flat()) await scene[Symbol.asyncDispose]();
  }
};

const operationCosts = async (single: RedisServer, cluster: RedisServer, say: Say): Promise<OperationCost[]> => {
  const costs: OperationCost[] = [];
  for (const operation of operations) {
    say(operation.name);
    const replicated = operation.replicas > 0 ? await startRedis({ replicas: operation.replicas }) : undefined;
    const cost = await measureOperation(replicated ?? single, operation);
    await replicated?.stop();
    const onCluster = operation.isOnCluster ? await measureOperation(cluster, operation, 1) : undefined;
    costs.push({ ...parted(operation), ...cost, ...(onCluster && { commandsOnCluster: onCluster.commands }) });
  }
  return costs;
};

export const measureCosts = async (say: Say): Promise<Costs> => {
  await using single = await startRedis();
  await using cluster = await startRedis({ mode: "cluster" });
  const costs = await operationCosts(single, cluster, say);
  const objects: StoredCost[] = [];
  for (const object of stored) {
    say(object.name);
    objects.push(await measureStored(single, object));
  }
  say("idle objects: a minute and a half");
  const left = await measureIdle(single, cluster);
  const { server, version } = single.version;
  return {
    date: new Date().toISOString(),
    node: process.version,
    redis: `${server} ${version}`,
    machine: `${String(cpus().length)} cores of ${cpus()[0]?.model.trim() ?? "an unknown processor"}`,
    operations: costs,
    stored: objects,
    idle: left,
  };
};
