import { expect } from "vitest";
import type { Login } from "../../acl.js";
import type { Watched } from "../../promises.js";
import { closedPort, nodeOf } from "../../servers.js";
import type { Client, Ground, Proxy, ServerNode } from "../ground.js";

/** A lease or a permit. */
export interface Held extends AsyncDisposable {
  readonly name: string;
  readonly token: string;
  readonly holder: string;
  readonly leaseMs: number;
  readonly remainingMs: number;
  readonly isHeld: boolean;
  readonly signal: AbortSignal;
  assertHeld(): void;
  stopRenewal(): void;
  extend(leaseMs?: number): Promise<void>;
  release(): Promise<string>;
  serialise(): string;
  handOver(): string;
}

/** An object with room for one holder, bound to its name. */
export interface Leaser {
  acquire(options?: object): Promise<Held>;
  tryAcquire(options?: object): Promise<Held | null>;
  /** Calls `acquire`. Resolves once the waiter is in the queue and subscribed. */
  enqueue(options?: object): Promise<Watched<Held>>;
  using<T>(routine: (held: Held) => Promise<T> | T, options?: object): Promise<T>;
  /** Holders and waiters, each as the package shows it. */
  inspect(): Promise<{ readonly holders: readonly object[]; readonly queue: readonly object[] }>;
  resume(text: string): Promise<Held>;
  close(options?: object): Promise<void>;
  on(event: string, listener: (...facts: readonly object[]) => void): unknown;
  once(event: string, listener: (...facts: readonly object[]) => void): unknown;
}

/** A lease that another process holds. */
interface PeerHeld {
  readonly id: number;
  readonly token: string;
}

/** Another process with an object of the usual name, which can be killed. */
interface LeasePeer {
  acquire(options?: object): Promise<PeerHeld>;
  release(held: PeerHeld): Promise<string>;
  resume(text: string): Promise<PeerHeld>;
  kill(): Promise<void>;
}

/** Options of an object, and its name if that is not the usual one. */
interface Made {
  readonly name?: string;
  readonly prefix?: string;
  readonly deadlineMs?: number;
  readonly isolate?: boolean;
  readonly leaseMs?: number;
  readonly maxHoldMs?: number;
  readonly holder?: string;
  readonly maxWaiters?: number;
  readonly renew?: boolean;
}

/** The description of a package with leases for the leasing suites. */
export interface Leasing {
  readonly ground: Ground;
  /** The user of the objects, where it is not that of the tests. */
  readonly login?: Login | undefined;
  /** The name in keys and in serialised leases. */
  readonly what: string;
  /** The usual name of a test. */
  readonly name: string;
  /** Makes an object as a user does. The package gets this object of options unchanged. */
  create(client: object, name: string, options: object): Leaser;
  /** Options that have no default. */
  readonly required: object;
  /** Makes an object on the shared client under the test's prefix, closed after the test. */
  make(options?: Made): Leaser;
  /** As `make`, on a given client. */
  on(client: object, options?: Made): Leaser;
  /** As `make`, with this text in every place for a caller's text. */
  labelled(text: string, name?: string): Leaser;
  label(text: string): object;
  /** A new client of the user of the objects, gone after the test. */
  connect(options?: object): object;
  /** The holder as `inspect` shows it, with its fencing token if there is one. */
  shown(held: Held): object;
  /** The fields that all events of a lease have. */
  facts(held: Held): object;
  /** The fields of `waiting` and `stillWaiting` of the first waiter behind a holder with this label. */
  waitingBehind(holder: string): object;
  /** An object with more than one holder at a time. `works` makes all calls that read a reply. */
  working(client: object, name?: string): { works(): Promise<void>; close(): Promise<void> };
  spawn(): Promise<LeasePeer>;
  /** Resolves once there are `waiters` waiters for the usual name. */
  untilWaiting(waiters: number): Promise<void>;
  /** The keys by their parts. All leasing packages have `queue` and `waiters`. */
  keysOf(name: string): { readonly queue: string; readonly waiters: string };
  /** The key of the holders, then the key that the first grant creates and that outlives all leases. */
  heldKey(name: string): string;
  lastingKey(name: string): string;
  /** Ends a lease of the usual name on the server. Nobody is notified. */
  expire(held: Held): Promise<void>;
  /** Milliseconds that the server, or one node of it, gives the only lease of a name; 0 or less: there is none. */
  msLeft(name?: string, node?: ServerNode): Promise<number>;
  /** Gives the only lease of the usual name another end on the server. */
  setMsLeft(ms: number): Promise<void>;
  /** How many leases of the usual name there are on the server. */
  used(): Promise<number>;
  /** How often clients had the servers run a script. */
  scriptCalls(): Promise<number>;
  /** The fields of the error when a wait times out behind a holder with this label. */
  timeoutOf(holder: string): { readonly code: string };
  readonly fullCode: string;
  readonly lostCode: string;
  /** The reason of a loss that is noticed when another holds it. */
  readonly takenReason: string;
  /** The end of a timeout's message about the holder. */
  readonly lastSeen: string;
  /** The event `acquired` of a plain acquire. */
  readonly acquired: object;
  /** Fields that make the text of a lease invalid, besides those of every package. */
  readonly spoilt: Readonly<Record<string, object>>;
  /** A module whose `make(redis, name, options)` makes a leaser, for processes of their own. */
  readonly module: URL;
}

export const closedError: object = { name: "KitClosedError", code: "KIT_CLOSED" };

/** The fields of the error by which a lease is lost. */
export const lossOf = ({ lostCode, name }: Leasing, reason: string): object => ({
  code: lostCode,
  reason,
  resource: name,
});

/** The next event of a kind. */
export const next = async (leaser: Leaser, event: string): Promise<object> =>
  await new Promise((resolve) => leaser.once(event, (fact) => resolve(fact!)));

/** The node that serves the usual name. */
export const serving = async ({ ground, heldKey, name }: Leasing): Promise<ServerNode> =>
  await nodeOf(ground.redis.server.nodes, heldKey(name));

/** A client that never finds a server. */
export const unreachable = ({ ground: { redis } }: Leasing): object => {
  const at = { host: "127.0.0.1", port: closedPort };
  const given = redis.client as Client;
  const client =
    redis.server.mode === "cluster"
      ? given.duplicate([at], { redisOptions: { disconnectTimeout: 50 } })
      : given.duplicate({ ...at, disconnectTimeout: 50 });
  client.on("error", () => undefined);
  redis.defer(() => client.disconnect());
  return client;
};

export const expectWithin = (value: unknown, least: number, most: number): void => {
  expect(value).toBeGreaterThanOrEqual(least);
  expect(value).toBeLessThanOrEqual(most);
};

/** The test's own commands. */
export const command = async ({ ground }: Leasing, ...[name, ...args]: [string, ...string[]]): Promise<unknown> =>
  await (ground.redis.client as Client).call(name, ...args);

export const exists = async (leasing: Leasing, ...keys: readonly string[]): Promise<unknown> =>
  await command(leasing, "EXISTS", ...keys);

/** Resolves once the keys show neither holder nor waiter. */
export const isFree = async (leasing: Leasing): Promise<void> => {
  const { name, ground } = leasing;
  const { waiters, ...keys } = leasing.keysOf(name);
  const gone = Object.values(keys).filter((key) => key !== leasing.lastingKey(name));
  await ground.eventually(async () => {
    const left = (await command(leasing, "HKEYS", waiters)) as string[];
    // The last ticket stays.
    const places = left.filter((field) => field !== "#");
    const found = await exists(leasing, ...gone);
    if (found !== 0 || places.length > 0) throw new Error(`${String(found)} keys and ${String(places)} are left`);
  });
};

/** A client behind a proxy that can delay data, lose data and cut connections. */
export const proxied = async ({ redis, FaultProxy }: Ground): Promise<{ readonly proxy: Proxy; connect(): Client }> => {
  const proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
  redis.defer(() => proxy.close());
  return { proxy, connect: () => redis.connect({ port: proxy.port, retryStrategy: () => 20 }) as Client };
};
