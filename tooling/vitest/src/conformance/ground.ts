import { expect } from "vitest";
import type { Call, Conformance, Conforming } from "./description.js";

/** The members of an ioredis client that the suites use. */
export interface Client {
  readonly status: string;
  readonly options: object;
  call(command: string, ...args: readonly (string | Uint8Array)[]): Promise<unknown>;
  callBuffer(command: string, ...args: readonly string[]): Promise<unknown>;
  ping(): Promise<unknown>;
  duplicate(...options: readonly object[]): Client;
  disconnect(): void;
  quit(): Promise<unknown>;
  on(event: string, listener: (...facts: never[]) => void): unknown;
  once(event: string, listener: (...facts: never[]) => void): unknown;
  eventNames(): readonly (string | symbol)[];
  listenerCount(event: string | symbol): number;
  setMaxListeners(count: number): unknown;
}

/** A server process. */
export interface ServerNode {
  readonly host: string;
  readonly port: number;
  call(command: string, ...args: string[]): Promise<unknown>;
  kill(): Promise<void>;
  start(): Promise<void>;
  pause(): void;
  resume(): void;
}

interface Server {
  readonly mode: "single" | "sentinel" | "cluster";
  readonly nodes: readonly ServerNode[];
  readonly replicas: readonly ServerNode[];
  call(command: string, ...args: string[]): Promise<unknown>;
  master(): Promise<ServerNode>;
  stop(): Promise<void>;
  client(options?: object): unknown;
}

interface Direction {
  hole: boolean;
  latencyMs: number;
  cutNext: number;
}

export interface Proxy {
  readonly port: number;
  readonly stats: { readonly resets: number; readonly droppedBytes: number; readonly slowedChunks: number };
  readonly up: Direction;
  readonly down: Direction;
  refuse: boolean;
  redirect(port: number): void;
  resetAll(): void;
  heal(): void;
  close(): Promise<void>;
}

/** Parts of `@kit/core` and `@kit/testing`, passed by a package's test file. This workspace cannot depend on them. */
export interface Ground {
  readonly redis: {
    readonly prefix: string;
    readonly url: string;
    readonly client: object;
    readonly server: Omit<Server, "client" | "stop">;
    connect(options?: object): object;
    keys(): Promise<string[]>;
    permanent(...keys: readonly (string | RegExp)[]): void;
    defer(close: () => unknown): void;
  };
  connect(options: { url: string; deadlineMs: number }): Promise<object>;
  startRedis(options: { mode?: "cluster"; password?: string; replicas?: number }): Promise<Server>;
  readonly FaultProxy: { start(options: { port: number }): Promise<Proxy> };
  eventually<T>(look: () => T | Promise<T>, options?: { timeoutMs: number }): Promise<T>;
}

/** The code of a typed error whose stack leads to our call, else a text that is no code. */
export const codeOf = (error: unknown): string => {
  const { code } = (error ?? {}) as { readonly code?: unknown };
  if (!(error instanceof Error && typeof code === "string" && code.startsWith("KIT_")))
    return `no code: ${String(error)}`;
  return error.stack?.includes(outcomeOf.name) ? code : `${code} without its caller: ${String(error.stack)}`;
};

/** The outcome of a call: its value, or its error. */
export type Outcome = { readonly value: unknown } | { readonly error: unknown };

export const outcomeOf = async (call: () => unknown): Promise<Outcome> => {
  try {
    return { value: await call() };
  } catch (error) {
    return { error };
  }
};

/** A prepared call. */
export interface Ready {
  readonly key: string;
  readonly call: Call;
  readonly object: Made;
  run(options?: unknown): Promise<Outcome>;
}

/** The result of `make`. Objects of a description with `hasNoClose` have no `close`. */
export type Made = AsyncDisposable & { close(options?: object): Promise<unknown> };

/** A package on a server, shared by the tests of a file. */
export class Fixture {
  readonly description: Conformance;
  readonly ground: Ground;
  #prefixes = 0;

  constructor(description: Conformance, ground: Ground) {
    this.description = description;
    this.ground = ground;
  }

  get redis(): Ground["redis"] {
    return this.ground.redis;
  }

  /** Declares the package's permanent keys under all prefixes of this fixture. */
  begin(): void {
    (this.redis.client as Client).setMaxListeners(0);
    const { permanentKeys = [] } = this.description;
    this.redis.permanent(...permanentKeys.map((key) => (typeof key === "string" ? `*${key}` : key)));
  }

  /** Returns a new prefix that begins with the test's. */
  prefix(): string {
    return `${this.redis.prefix}:${String(++this.#prefixes)}`;
  }

  /** Connects a client, which is closed after the test. */
  connect(options?: object): Client {
    const client = this.redis.connect(options) as Client;
    client.setMaxListeners(0);
    return client;
  }

  /** A client that its test may end, as an owner does. */
  own(options: object = {}): Client {
    const client = (this.redis.client as Client).duplicate({
      connectionName: "owner",
      retryStrategy: () => 20,
      ...options,
    });
    client.setMaxListeners(0);
    client.on("error", () => undefined);
    this.redis.defer(() => client.disconnect());
    return client;
  }

  /** A client of core's connect(). */
  async connectByUrl(url: string): Promise<Client> {
    const connection = (await this.ground.connect({ url, deadlineMs: 10_000 })) as Client & AsyncDisposable;
    connection.setMaxListeners(0);
    this.redis.defer(() => connection[Symbol.asyncDispose]());
    return connection;
  }

  /** Ends a client as its owner does. */
  async end(client: Client, how: "disconnect" | "quit" = "disconnect"): Promise<void> {
    const ended = new Promise((resolve) => client.on("end", resolve as () => void));
    // A QUIT that waits for a slow connection rejects when the connection ends.
    await Promise.resolve(client[how]()).catch(() => undefined);
    await ended;
  }

  /** A client behind a proxy. */
  async proxied(): Promise<{ readonly proxy: Proxy; readonly client: Client }> {
    const proxy = await this.ground.FaultProxy.start({ port: this.redis.server.nodes[0]!.port });
    this.redis.defer(() => proxy.close());
    const client = this.connect({ port: proxy.port, retryStrategy: () => 20 });
    await client.ping();
    return { proxy, client };
  }

  make(object: Conforming, client: object, options: object = {}): Made {
    const made = this.makeOpen(object, client, options);
    if (!object.hasNoClose) this.redis.defer(() => made.close({ timeoutMs: 0 }));
    return made;
  }

  /** As `make()`, but nothing closes it. */
  makeOpen(object: Conforming, client: object, options: object = {}): Made {
    return object.make(client as never, { prefix: this.prefix(), ...options }) as Made;
  }

  /** Gives calls time to reach the server and wait there. No test relies on that. */
  async settle(): Promise<void> {
    for (let turn = 0; turn < 5; turn++) await (this.redis.client as Client).ping();
  }

  /** The outcomes of all these calls. Fails with the names of calls that do not settle. */
  async all(pending: Readonly<Record<string, Promise<Outcome>>>): Promise<ReadonlyMap<string, Outcome>> {
    const settled = new Map<string, Outcome>();
    for (const [key, call] of Object.entries(pending)) void call.then((outcome) => settled.set(key, outcome));
    const open = (): readonly string[] => Object.keys(pending).filter((key) => !settled.has(key));
    // Longer than a lease: if the reply to a worker was late, its job runs after the lease has ended.
    await this.ground.eventually(() => assertNone(open()), { timeoutMs: 60_000 });
    return settled;
  }

  /** Prepares one call. */
  async ready(object: Conforming, key: string, client: object, options: object = {}): Promise<Ready> {
    return await this.readyOn(object, key, this.make(object, client, options));
  }

  async readyOn(object: Conforming, key: string, made: Made): Promise<Ready> {
    const call = object.calls[key]!;
    const prepared = await call.prepare?.(made as never);
    const run = (given: unknown = {}): Promise<Outcome> => {
      const isObject = typeof given === "object" && given !== null && !Array.isArray(given);
      const whole = (isObject && call.required ? { ...call.required, ...given } : given) as object;
      return outcomeOf(() => call.run(made as never, whole, prepared as never));
    };
    return { key, call, object: made, run };
  }

  /** Makes all calls that settle by themselves, each on an object of its own. */
  async tour(object: Conforming, client: object, options: object = {}): Promise<Record<string, unknown>> {
    const values: Record<string, unknown> = {};
    for (const key of keysOf(object, ({ waits }) => !waits)) {
      const outcome = await (await this.ready(object, key, client, options)).run();
      if ("error" in outcome) throw new Error(`${key} of ${object.what} failed`, { cause: outcome.error });
      values[key] = outcome.value;
    }
    return { ...values, works: await object.works?.(this.make(object, client, options) as never) };
  }
}

const assertNone = (open: readonly string[]): void => {
  if (open.length > 0) throw new Error(`these calls do not settle: ${open.join(", ")}`);
};

/** The keys of the calls for which `isWanted` holds. */
export const keysOf = (object: Conforming, isWanted: (call: Call) => boolean = () => true): readonly string[] =>
  Object.entries(object.calls)
    .filter(([, call]) => isWanted(call))
    .map(([key]) => key);

/** Compares the outcomes of all calls as a whole, so that a difference names its call. */
export const expectEach = (actual: ReadonlyMap<string, unknown>, wanted: (key: string) => unknown): void => {
  expect(actual.size).toBeGreaterThan(0);
  expect(Object.fromEntries(actual)).toEqual(
    Object.fromEntries(Array.from(actual.keys(), (key) => [key, wanted(key)] as const)),
  );
};

/** The code of the error, or the resolved value. */
export const shown = (outcome: Outcome): unknown => ("error" in outcome ? codeOf(outcome.error) : outcome.value);

/** Listeners of a client, by event. */
export const listenersOf = (client: Client): unknown =>
  client.eventNames().map((event) => [event, client.listenerCount(event)]);
