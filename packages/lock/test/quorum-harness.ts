import { eventually, FaultProxy, type RedisNode, type TestRedis, useRedis } from "@kit/testing";
import type { Redis } from "ioredis";
import * as vitest from "vitest";
import { quorumKey } from "../src/keys.js";
import { createQuorumLock, type QuorumLease, type QuorumLock, type QuorumLockOptions } from "../src/quorum/index.js";

/** Several servers for the quorum locks of one test file. */
export interface QuorumFixture {
  readonly servers: readonly TestRedis<"single">[];
  node(index: number): RedisNode;
  /** New clients, one for each server. */
  clients(): Redis[];
  /** New clients through proxies, one for each server. */
  proxied(): Promise<{ clients: Redis[]; proxies: FaultProxy[] }>;
  /** A lock on new clients, or on these, closed after the test. No server abstains. */
  make(options?: QuorumLockOptions, clients?: readonly Redis[]): QuorumLock;
  keyOf(name: string): string;
  /** The holder of a name on each server; null: nobody; undefined: the server is down. */
  holders(name: string): Promise<(string | null | undefined)[]>;
  /**
   * Waits until the servers have these holders. An acquire returns at the majority, and a server that was late has the lease only
   * after a renewal: so `lease` is extended before each look.
   */
  untilHeld(name: string, wanted: readonly unknown[], lease?: QuorumLease): Promise<void>;
  /** How many leases a server has granted so far. */
  grants(index: number): Promise<number>;
  /** Makes a key another holder's on these servers. */
  occupy(name: string, ...servers: readonly number[]): Promise<void>;
  /** Kills a server, which loses its data, and starts it again. */
  restart(index: number): Promise<void>;
}

export const quorumFixture = (count = 3): QuorumFixture => {
  const servers = Array.from({ length: count }, () => useRedis(vitest));
  const prefix = (): string => servers[0]!.prefix;
  // The checks of the last server come first.
  const defer = (close: () => unknown): void => servers.at(-1)!.defer(close);
  const node = (index: number): RedisNode => servers[index]!.server.nodes[0]!;
  const clients = (): Redis[] => servers.map((server) => server.connect({ retryStrategy: () => 20 }));
  const keyOf = (name: string): string => quorumKey(prefix())(name);
  const holders: QuorumFixture["holders"] = (name) =>
    Promise.all(
      servers.map(async (_, index) => {
        if (node(index).state !== "running") return undefined;
        const owner = await node(index).call("GET", keyOf(name));
        return owner === null ? null : (owner as string).split("|")[1];
      }),
    );
  return {
    servers,
    node,
    clients,
    proxied: async () => {
      const proxies = await Promise.all(servers.map((_, index) => FaultProxy.start({ port: node(index).port })));
      defer(() => Promise.all(proxies.map((proxy) => proxy.close())));
      const through = proxies.map(({ port }, index) =>
        servers[index]!.connect({ port, retryStrategy: () => 20, connectTimeout: 1_000 }),
      );
      return { clients: through, proxies };
    },
    make: (options = {}, given = clients()) => {
      const lock = createQuorumLock(given, {
        prefix: prefix(),
        restartGuardMs: 0,
        nodeTimeoutMs: 5_000,
        deadlineMs: 10_000,
        ...options,
      });
      defer(() => lock.close({ timeoutMs: 0 }));
      return lock;
    },
    keyOf,
    holders,
    untilHeld: (name, wanted, lease) =>
      eventually(async () => {
        await lease?.extend();
        vitest.expect(await holders(name)).toEqual(wanted);
      }),
    grants: async (index) => {
      const stats = String(await node(index).call("INFO", "commandstats"));
      return Number(/cmdstat_set:calls=(\d+)/.exec(stats)?.[1] ?? 0);
    },
    occupy: async (name, ...indexes) => {
      for (const index of indexes) await node(index).call("SET", keyOf(name), "other|other", "PX", "100000");
    },
    restart: async (index) => {
      await node(index).kill();
      await node(index).start();
    },
  };
};
