import type { Watched } from "../../promises.js";
import type { Client, Ground, Proxy } from "../ground.js";

/** A lease or a permit. */
export interface Held {
  readonly token: string;
  readonly holder: string;
  readonly leaseMs: number;
  readonly isHeld: boolean;
  readonly signal: AbortSignal;
  extend(leaseMs?: number): Promise<unknown>;
  release(): Promise<unknown>;
  serialise(): string;
}

/** An object with room for one holder, bound to its name. */
export interface Leaser {
  acquire(options?: object): Promise<Held>;
  tryAcquire(options?: object): Promise<Held | null>;
  /** Calls `acquire`. Resolves once the waiter is in the queue and subscribed. */
  enqueue(options?: object): Promise<Watched<Held>>;
  /** Holders and waiters, each as the package shows it. */
  inspect(): Promise<{ readonly holders: readonly object[]; readonly queue: readonly object[] }>;
  resume(text: string): Promise<Held>;
  close(options?: object): Promise<void>;
  onError(listener: (error: { readonly code: string }) => void): unknown;
  once(event: "acquired" | "waiting", listener: (...facts: readonly object[]) => void): unknown;
}

/** Options of an object, and its name if that is not the usual one. */
interface Made {
  readonly name?: string;
  readonly deadlineMs?: number;
  readonly isolate?: boolean;
}

/** The description of a package with leases for the leasing suites. */
export interface Leasing {
  readonly ground: Ground;
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
  /** The holder as `inspect` shows it, with its fencing token if there is one. */
  shown(held: Held): object;
  /** An object with more than one holder at a time. `works` makes all calls that read a reply. */
  working(client: object, name?: string): { works(): Promise<void>; close(): Promise<void> };
  /** Another process with an object of the usual name, which can be killed. */
  spawn(): Promise<{ acquire(): Promise<unknown>; kill(): Promise<void> }>;
  /** Resolves once there are `waiters` waiters for the usual name. */
  untilWaiting(waiters: number): Promise<void>;
  /** The keys by their parts. All leasing packages have `queue` and `waiters`. */
  keysOf(name: string): { readonly queue: string; readonly waiters: string };
  /** The key of the holders, then the key that the first grant creates and that outlives all leases. */
  heldKey(name: string): string;
  lastingKey(name: string): string;
  /** The fields of the error when a wait times out behind a holder with this label. */
  timeoutOf(holder: string): object;
  readonly lostCode: string;
  /** The end of a timeout's message about the holder. */
  readonly lastSeen: string;
  /** The event `acquired` of a plain acquire. */
  readonly acquired: object;
  /** Fields that make the text of a lease invalid, besides those of every package. */
  readonly spoilt: Readonly<Record<string, object>>;
  /** A module whose `make` makes a leaser, for processes of their own. */
  readonly module: URL;
}

export const closedError: object = { name: "KitClosedError", code: "KIT_CLOSED" };

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
export const proxied = async ({ redis, FaultProxy }: Ground): Promise<{ readonly proxy: Proxy; connect(): object }> => {
  const proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
  redis.defer(() => proxy.close());
  return { proxy, connect: () => redis.connect({ port: proxy.port, retryStrategy: () => 20 }) };
};
