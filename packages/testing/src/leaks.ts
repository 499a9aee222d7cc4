import type { Cluster, Redis } from "ioredis";

import type { RedisNode } from "./node.js";
import { ADMIN_NAME } from "./resp.js";

/** A client's connection in the server's list. */
export interface Connection {
  /** The node's port, and the connection's id on it. */
  readonly id: string;
  readonly name: string;
  readonly address: string;
  readonly lastCommand: string;
}

// Vitest reports on a timer of 100 ms that runs at the start of nearly every test. It is over by then.
const RUNNER_TIMER_OVER_MS = 120;
// It still runs then, unless the process stood still between its start and ours.
const RUNNER_TIMER_RUNS_MS = 50;

/**
 * Distinguishes a test's timers from the runner's own. Node only counts them, so this compares with the number that is left in
 * a file between its tests; one more timer at the start of a test counts as the runner's.
 */
export class TimerWatch {
  // A timer does not show which `useRedis` of a file it belongs to. So only the last one to end its test looks.
  static readonly #running = new Set<TimerWatch>();

  #resting: number | undefined;
  #atBegin = 0;
  #startedAt = 0;
  #looks = 0;
  #hasForgiven = false;

  /** `startedAt`: when the runner called, before any wait. */
  async begin(startedAt: number): Promise<void> {
    if (this.#resting === undefined || this.#hasForgiven || countTimers() > this.#resting + 1)
      this.#resting = await fewestTimers();
    this.#atBegin = countTimers();
    this.#resting = Math.min(this.#resting, this.#atBegin);
    this.#startedAt = startedAt;
    this.#looks = 0;
    TimerWatch.#running.add(this);
  }

  end(): void {
    TimerWatch.#running.delete(this);
  }

  /** Call it repeatedly at the end of a test, until it returns none. */
  leaks(): string[] {
    if (TimerWatch.#running.size > 1) return [];
    this.#looks += 1;
    const now = countTimers();
    const resting = this.#resting ?? 0;
    // The runner's timer of the start still runs; to wait for its end would cost every short test 100 ms. Later it may have
    // ended, and a timer that the test left would be mistaken for it.
    const isSameMoment = this.#looks === 1 && performance.now() - this.#startedAt < RUNNER_TIMER_RUNS_MS;
    if (now <= (isSameMoment ? this.#atBegin : resting)) return [];
    return [`${plural(now - resting, "timer")} more than before the test (active now: ${activeKinds()})`];
  }

  /**
   * From now on, a timer that a test has left is expected, so that one leak fails only one test. The timer may end at any time,
   * so the count is taken at each start.
   */
  forgive(): void {
    this.#hasForgiven = true;
  }
}

const countTimers = (): number => process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length;

async function fewestTimers(): Promise<number> {
  const until = performance.now() + RUNNER_TIMER_OVER_MS;
  let fewest = countTimers();
  while (fewest > 0 && performance.now() < until) {
    await new Promise((resolve) => setTimeout(resolve, 1));
    // In a late process other timers are due by now, too: they run before this.
    await new Promise((resolve) => setImmediate(resolve));
    fewest = Math.min(fewest, countTimers());
  }
  return fewest;
}

function activeKinds(): string {
  const kinds = new Map<string, number>();
  for (const kind of process.getActiveResourcesInfo()) kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  return [...kinds].map(([kind, count]) => `${count} ${kind}`).join(", ");
}

/** The connections to all nodes, without the kit's own connections. */
export async function listConnections(
  nodes: readonly RedisNode[],
  shared: Redis | Cluster,
): Promise<readonly Connection[]> {
  const lists = await Promise.all(
    nodes.map(async (node) => {
      const own = await idsOfKit(node, shared);
      const lines = String(await node.call("CLIENT", "LIST"))
        .trim()
        .split("\n");
      return lines.map((line) => parseConnection(node.port, line)).filter(({ id }) => !own.has(id));
    }),
  );
  return lists.flat().filter(({ isAmongServers }) => !isAmongServers);
}

/** The kit's own connections to a node; listed anew each time, since a test may have cut and so renewed them. */
async function idsOfKit(node: RedisNode, shared: Redis | Cluster): Promise<Set<string>> {
  const clients = "nodes" in shared ? shared.nodes("all") : [shared];
  const ready = clients.filter((client) => client.status === "ready" && portOf(client) === node.port);
  const ids = await Promise.all([node.call("CLIENT", "ID"), ...ready.map((client) => client.client("ID"))]);
  return new Set(ids.map((id) => `${node.port}#${String(id)}`));
}

/** The port that a client is connected to. With Sentinels its options do not say it. */
export const portOf = (client: Redis): number | undefined => client.stream?.remotePort;

export function connectionLeaks(now: readonly Connection[], before: readonly Connection[]): string[] {
  const known = new Set(before.map(({ id }) => id));
  // Compared by name and number, since an old connection may have been made anew under a new id.
  const names = new Set(now.map(({ name }) => name));
  return [...names].flatMap((name) => {
    const ofName = now.filter((connection) => connection.name === name);
    const fresh = ofName.filter(({ id }) => !known.has(id));
    return fresh.slice(0, Math.max(0, ofName.length - allowed(before, name))).map(describeConnection);
  });
}

function allowed(before: readonly Connection[], name: string): number {
  // The shared Cluster client reads the map of slots on temporary connections.
  if (name.includes("refresher") && name.includes(ADMIN_NAME)) return Infinity;
  return before.filter((connection) => connection.name === name).length;
}

const describeConnection = ({ id, name, address, lastCommand }: Connection): string =>
  `an open connection (${id} from ${address}, name "${name}", last command "${lastCommand}")`;

function parseConnection(port: number, line: string): Connection & { isAmongServers: boolean } {
  const field = (name: string) => new RegExp(`(?:^| )${name}=(\\S*)`).exec(line)?.[1] ?? "";
  return {
    id: `${port}#${field("id")}`,
    name: field("name"),
    address: field("addr"),
    lastCommand: field("cmd"),
    isAmongServers: /[MS]/.test(field("flags")) || /^sentinel-[0-9a-f]{8}-(cmd|pubsub)$/.test(field("name")),
  };
}

/** All keys with `part` in their name, over all masters, sorted. */
export async function findKeys(nodes: readonly RedisNode[], part: string): Promise<string[]> {
  const found = await Promise.all(nodes.map((node) => scan(node, part)));
  return [...new Set(found.flat())].sort();
}

async function scan(node: RedisNode, part: string): Promise<string[]> {
  const keys: string[] = [];
  let cursor = "0";
  do {
    const [next, page] = (await node.call("SCAN", cursor, "MATCH", `*${part}*`, "COUNT", "1000")) as [string, string[]];
    keys.push(...page);
    cursor = next;
  } while (cursor !== "0");
  return keys;
}

export async function keyLeaks(
  nodes: readonly RedisNode[],
  prefix: string,
  isPermanent: (key: string) => boolean,
): Promise<string[]> {
  const leaks = await Promise.all(
    nodes.map(async (node) => {
      const keys = [...new Set(await scan(node, prefix))].filter((key) => !isPermanent(key)).sort();
      const found = await Promise.all(
        keys.map(async (key) => ({ key, ttl: await node.call("PTTL", key), type: await node.call("TYPE", key) })),
      );
      return found
        .filter(({ ttl }) => ttl === -1)
        .map(({ key, type }) => `a ${String(type)} key without expiry: ${key}`);
    }),
  );
  return leaks.flat();
}

export async function removeKeys(nodes: readonly RedisNode[], prefix: string): Promise<void> {
  await Promise.all(
    nodes.map(async (node) => {
      for (const key of await scan(node, prefix)) await node.call("UNLINK", key);
    }),
  );
}

/** The number of listeners per event. */
export type ListenerCounts = ReadonlyMap<string | symbol, number>;

export function countListeners(client: Redis | Cluster): ListenerCounts {
  return new Map(client.eventNames().map((event) => [event, client.listenerCount(event)]));
}

export function listenerLeaks(client: Redis | Cluster, before: ListenerCounts, which: string): string[] {
  return [...countListeners(client)].flatMap(([event, count]) => {
    // A connected Cluster client listens to its own end.
    const ownListeners = event === "close" && "nodes" in client ? 1 : 0;
    const more = count - Math.max(before.get(event) ?? 0, ownListeners);
    return more > 0 ? [`${plural(more, "listener")} for "${String(event)}" on ${which}`] : [];
  });
}

const plural = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`;
