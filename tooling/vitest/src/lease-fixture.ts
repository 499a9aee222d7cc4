import { vi } from "vitest";
import { type ClientGround, clientsOf, type Login } from "./acl.js";
import { Peer } from "./programs.js";
import { type Watched, watched } from "./promises.js";
import { type Node, nodeOf, patience, scriptCalls } from "./servers.js";

/** The parts of ioredis that a fixture uses. */
interface Commands {
  zcard(key: string): Promise<number>;
  zrange(key: string, from: string, to: string): Promise<string[]>;
  hmget(key: string, ...fields: string[]): Promise<(string | null)[]>;
}

/** The members of a test's server; see {@link ClientGround}. */
interface Ground extends ClientGround {
  readonly prefix: string;
  readonly client: object;
  readonly server: { readonly mode: string; readonly nodes: readonly (Node & { readonly port: number })[] };
  connect(...options: readonly never[]): object;
}

/** An object with leases. */
interface LeaseObject {
  once(event: "waiting", listener: () => void): unknown;
  close(options: { readonly timeoutMs: number }): Promise<unknown>;
}

/** A package's objects with leases. */
interface Described<One, Options, Keys, Client> {
  /** The name for a peer whose options have none. */
  readonly name: string;
  create(client: Client, options: Options): One;
  keysOf(name: string): Keys;
  /** The key of the holders. */
  heldKey(keys: Keys): string;
  /**
   * The fields of the waiters. The commands are those that the objects run, since the commands of a test show what a user needs.
   *
   * @default the members of the queue
   */
  waiting?(keys: Keys): Promise<string[]>;
  /** Exports `make`, and the classes of ioredis, for peers. */
  readonly module: URL;
}

/** The members of its server that a test of leases needs. */
export interface LeaseFixture<R extends Ground, One, Options, Keys, Client, Db> {
  /** A new client of the user whose objects are tested, gone after the test. */
  readonly connect: R["connect"];
  /** An object on the shared client under the test's prefix, closed after the test. */
  make(options?: Options): One;
  /** The same on a given client. */
  on(client: Client, options?: Options): One;
  keysOf(name: string): Keys;
  /** Commands for the keys; on a Cluster they are routed. */
  readonly db: Db;
  /** The server process that serves a name. */
  nodeOf(name: string): Promise<R["server"]["nodes"][number]>;
  /** How often clients had the servers run a script. */
  scriptCalls(): Promise<number>;
  /** Another process with a separate object on the same server and prefix, killed after the test. */
  spawn(options?: Options & { readonly name?: string }, execArgv?: readonly string[]): Promise<LeasePeer>;
  /** Waits as long as it takes until a name has that many waiters, and all of them listen. */
  untilWaiting(name: string, waiters: number): Promise<void>;
}

/** For each object: waits until all waiters of a name listen. */
const listening = new WeakMap<object, (name: string) => Promise<void>>();

/** Calls `acquire`, and resolves once that call is in the queue and listens, or has a lease. */
export const enqueued = async <Held>(
  object: LeaseObject,
  name: string,
  acquire: () => Promise<Held>,
): Promise<Watched<Held>> => {
  const waiting = new Promise<void>((resolve) => object.once("waiting", resolve));
  const lease = watched(acquire());
  await Promise.race([waiting, lease.promise]);
  await vi.waitFor(async () => lease.isSettled || listening.get(object)?.(name), patience);
  return lease;
};

/** With a `login` all objects are that user's, and only the tests' own commands go over the shared client. */
export const leaseFixture = <
  R extends Ground,
  One extends LeaseObject,
  Options extends object,
  Keys extends { readonly queue: string; readonly waiters: string },
  Client,
  Db,
>(
  redis: R,
  login: Login | undefined,
  { name: usual, create, keysOf, heldKey, waiting, module }: Described<One, Options, Keys, Client>,
): LeaseFixture<R, One, Options, Keys, Client, Db> => {
  const clients = clientsOf(redis, login);
  const common = (): object => ({ prefix: redis.prefix, deadlineMs: 10_000 });
  const commands = (): Commands => redis.client as Commands;
  /** At a client's first wait its place comes before its connection for pushes. */
  const areListening = async (name: string): Promise<void> => {
    const keys = keysOf(name);
    const fields = await (waiting?.(keys) ?? commands().zrange(keys.queue, "0", "-1"));
    const records = fields.length === 0 ? [] : await commands().hmget(keys.waiters, ...fields);
    if (records.some((record) => / \+( |$)/.test(String(record)))) throw new Error("somebody is not listening yet");
  };
  const on = (client: Client, options?: Options): One => {
    const object = create(client, { ...common(), ...options } as Options);
    listening.set(object, areListening);
    redis.defer(() => object.close({ timeoutMs: 0 }));
    return object;
  };
  return {
    connect: clients.connect as R["connect"],
    make: (options) => on(clients.shared() as Client, options),
    on,
    keysOf,
    get db() {
      return redis.client as Db;
    },
    nodeOf: (name) => nodeOf(redis.server.nodes, heldKey(keysOf(name))),
    scriptCalls: () => scriptCalls(redis.server.nodes),
    spawn: async ({ name = usual, ...options } = {} as Options & { readonly name?: string }, execArgv = []) => {
      const { mode, nodes } = redis.server;
      const ports = nodes.map(({ port }) => port).join(",");
      const settings = [{ ...common(), ...options }, login ?? {}].map((each) => JSON.stringify(each));
      const peer = new LeasePeer([module.href, mode, ports, name, ...settings], execArgv);
      redis.defer(() => peer.kill());
      await peer.ready;
      return peer;
    },
    untilWaiting: (name, waiters) =>
      vi.waitFor(async () => {
        const count = await commands().zcard(keysOf(name).queue);
        if (count !== waiters) throw new Error(`${String(count)} wait, not ${String(waiters)}`);
        await areListening(name);
      }, patience),
  };
};

/** A lease that another process holds. */
interface PeerLease {
  readonly id: number;
  readonly token: string;
}

/** Another process that acquires and releases on command, and can be killed. */
class LeasePeer extends Peer {
  constructor(args: readonly string[], execArgv: readonly string[]) {
    super(new URL("lease-peer.mjs", import.meta.url), args, execArgv);
  }

  acquire(options: object = {}): Promise<PeerLease> {
    return this.ask("acquire", options);
  }

  tryAcquire(options: object = {}): Promise<PeerLease | null> {
    return this.ask("tryAcquire", options);
  }

  release({ id }: Pick<PeerLease, "id">): Promise<string> {
    return this.ask("release", id);
  }

  resume(text: string): Promise<PeerLease> {
    return this.ask("resume", text);
  }

  isHeld({ id }: Pick<PeerLease, "id">): Promise<boolean> {
    return this.ask("isHeld", id);
  }

  /** The time by that process's clock. */
  now(): Promise<number> {
    return this.ask("now");
  }
}
