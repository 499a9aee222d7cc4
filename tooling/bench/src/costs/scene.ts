// Where costs are measured, and what is measured there.
import { type Connection, connect } from "@kit/core";
import type { RedisServer } from "@kit/testing";
import type { Redis } from "ioredis";

interface Closing {
  close(options?: { readonly timeoutMs?: number }): Promise<unknown>;
}

/** An option that ioredis does not know, and copies to each connection that is made like a client. */
const mark = "scene";
let scenes = 0;

/** A server, and the clients and objects that a measurement opens on it. `index` is its number among concurrent callers. */
export class Scene implements AsyncDisposable {
  readonly server: Pick<RedisServer, "url">;
  readonly index: number;
  readonly #number = ++scenes;
  readonly #open: (() => unknown)[] = [];

  constructor(server: Pick<RedisServer, "url">, index = 0) {
    this.server = server;
    this.index = index;
  }

  /** Opens a separate client with `connect()`. */
  async client(): Promise<Connection> {
    const redis = await connect({ url: this.server.url, options: { [mark]: this.#number } as object });
    this.atEnd(() => redis.close());
    return redis;
  }

  /** Whether a connection is that of a client of this scene, or was made as a copy of it. */
  has(connection: Redis): boolean {
    return (connection.options as { readonly [mark]?: number })[mark] === this.#number;
  }

  /** Closes an object at the end, before its client. Leases and jobs that it holds then are not waited for. */
  own<One extends Closing>(one: One): One {
    this.atEnd(() => one.close({ timeoutMs: 0 }).catch(() => undefined));
    return one;
  }

  /** The last one runs first. */
  atEnd(end: () => unknown): void {
    this.#open.push(end);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const end of this.#open.splice(0).toReversed()) await end();
  }
}

export type Run = (count: number) => Promise<unknown>;
type Call = (index: number) => Promise<unknown>;

/** `prepare` runs before each run and is not measured. */
export interface Opened {
  readonly prepare?: Run;
  readonly run: Run;
}

/** Names are `package: name`. A count is high enough that a background command does not matter. */
interface Named {
  readonly name: string;
  readonly about: string;
}
export interface CostedOperation extends Named {
  readonly count: number;
  /** How many run it at the same time, in equal parts. Each has a separate client. */
  readonly callers: number;
  readonly isOnCluster: boolean;
  readonly replicas: number;
  readonly open: (scene: Scene) => Promise<Opened>;
}
export interface StoredObject extends Named {
  readonly count: number;
  readonly store: (scene: Scene, count: number) => Promise<unknown>;
}
export interface IdleObject extends Named {
  readonly open: (scene: Scene) => Promise<unknown>;
}

/** The idle object that a thread measures, by its index, on each of these servers. */
export interface IdleTask {
  readonly index: number;
  readonly urls: readonly string[];
}

/** Opens an object on a separate client, as in a separate process. */
export const on =
  <One extends Closing>(create: (redis: Connection) => One) =>
  async (scene: Scene): Promise<One> =>
    scene.own(create(await scene.client()));

/** Enough to keep a server awake. Alone, each command wakes it, which costs more than the command. */
export const manyCallers = 16;

/** Calls in groups that start at once; each run continues the numbers. */
export const inGroups = (size: number, call: Call): Run => {
  let next = 0;
  return async (count) => {
    for (let left = count; left > 0; left -= size)
      await Promise.all(Array.from({ length: Math.min(size, left) }, () => call(next++)));
  };
};
export const oneByOne = (call: Call): Run => inGroups(1, call);

type Conditions = Partial<Pick<CostedOperation, "callers" | "isOnCluster" | "replicas">>;

/** An operation with its own way to run. */
export const work = (
  name: string,
  about: string,
  count: number,
  open: CostedOperation["open"],
  conditions: Conditions = {},
): CostedOperation => ({ name, about, count, callers: 1, isOnCluster: true, replicas: 0, ...conditions, open });

/** An operation that 16 clients call, each one call after another. */
export const calls = (
  name: string,
  about: string,
  count: number,
  open: (scene: Scene) => Promise<Call>,
  conditions: Conditions = {},
): CostedOperation => {
  const opened = async (scene: Scene): Promise<Opened> => ({ run: oneByOne(await open(scene)) });
  return work(name, about, count, opened, { callers: manyCallers, ...conditions });
};
