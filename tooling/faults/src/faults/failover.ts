import { pause } from "@kit/core/toolkit";
import { eventually, type RedisNode } from "@kit/testing";
import { clock } from "@tooling/lab";
import type { Lab } from "../lab/lab.js";
import { grows } from "../lab/waits.js";
import { stopped } from "../lab/process-state.js";
import type { Fault } from "./fault.js";

/** The largest replication lag on a busy machine. */
const unreplicatedMs = 1_000;
/** The time for clients to find their new master: they retry at least every two seconds. */
export const followMs = 2_500;
/** The bound for Sentinels, which query healthy servers every ten seconds. */
export const inStep = { timeoutMs: 40_000, intervalMs: 50 };

const serversOf = ({ server }: Lab): readonly RedisNode[] => [...server.nodes, ...server.replicas];

export const infoOf = async (node: RedisNode): Promise<string> => String(await node.call("INFO", "replication"));
const offsetOf = (text: string): number => Number(/^(?:slave|master)_repl_offset:(\d+)/m.exec(text)?.[1] ?? 0);

const follow = (node: RedisNode, { host, port }: RedisNode): Promise<unknown> =>
  node.call("REPLICAOF", host, String(port));

/** Sets what a replica logs in with. Refused, it is left behind as soon as its link breaks. */
export const login = async (replica: RedisNode, user: string, password: string): Promise<void> => {
  await replica.call("CONFIG", "SET", "masteruser", user);
  await replica.call("CONFIG", "SET", "masterauth", password);
};

/** Parses a reply of a Sentinel: fields and values in turn. */
const fieldsOf = (reply: unknown): ReadonlyMap<string, string> => {
  const flat = reply as readonly string[];
  return new Map(flat.flatMap((name, at) => (at % 2 === 0 ? [[name, flat[at + 1] ?? ""] as const] : [])));
};

/** Resolves with the master once all replicas follow it and every Sentinel reports all of them as healthy. */
const wellMaster = async (lab: Lab): Promise<RedisNode> =>
  await eventually(async () => {
    const master = await lab.server.master();
    const others = serversOf(lab).filter((node) => node !== master);
    const online = (await infoOf(master)).match(/^slave\d+:.*state=online/gm)?.length ?? 0;
    if (online < others.length) throw new Error(`${String(online)} replicas follow`);
    for (const sentinel of lab.server.sentinels) {
      const name = lab.server.url.slice(lab.server.url.lastIndexOf("/") + 1);
      const seen = [
        fieldsOf(await sentinel.call("SENTINEL", "MASTER", name)),
        ...((await sentinel.call("SENTINEL", "REPLICAS", name)) as unknown[]).map(fieldsOf),
      ];
      const [own, ...replicas] = seen.map((fields) => fields.get("flags"));
      if (own !== "master" || replicas.length !== others.length || replicas.some((flags) => flags !== "slave"))
        throw new Error(`a Sentinel sees a ${String(own)}, and ${replicas.join()}`);
      if (seen[0]?.get("port") !== String(master.port)) throw new Error("a Sentinel reports another master");
    }
    return master;
  }, inStep);

/** Resolves with the new master once the Sentinels have promoted it. */
const successor = async (lab: Lab, old: RedisNode): Promise<RedisNode> =>
  await eventually(
    async () => {
      const master = await lab.server.master();
      if (master === old) throw new Error("the Sentinels wait");
      return master;
    },
    { timeoutMs: 20_000 },
  );

/** A dead master returns as a replica of its successor; without a successor it returns empty. */
const comeBack = async (lab: Lab, old: RedisNode, next: RedisNode | undefined, from: number): Promise<void> => {
  await old.start();
  if (!next) return lab.lostData(from, clock(), "all");
  // Sentinels would do the same, some ten seconds later.
  await follow(old, await lab.server.master());
  // If the Sentinels have replaced the new master as well, its unreplicated writes are lost, too.
  if ((await wellMaster(lab)) !== next) lab.lostData(from, clock(), "unreplicated");
};

export const isMaster = async (node: RedisNode): Promise<boolean> => (await infoOf(node)).includes("role:master\r\n");

/** Resolves with the masters of a Cluster once each has its replica and every node reports all slots as served. */
const wellMasters = async (lab: Lab): Promise<readonly RedisNode[]> =>
  await eventually(async () => {
    const masters: RedisNode[] = [];
    for (const node of serversOf(lab)) {
      const state = String(await node.call("CLUSTER", "INFO"));
      if (!state.includes("cluster_state:ok\r\n")) throw new Error("a node reports unserved slots");
      if (await isMaster(node)) masters.push(node);
      else if (!(await infoOf(node)).includes("master_link_status:up\r\n")) throw new Error("a replica has no link");
    }
    if (masters.length !== lab.server.nodes.length) throw new Error("there is a master without slots");
    return masters;
  }, inStep);

const dueAfter = (from: number): number => clock() - from + followMs;

/** Faults of a master with replicas, and of the Sentinels that watch them. */
export const failoverFaults: readonly Fault[] = [
  {
    kind: "master killed",
    setting: "failover",
    inject: async (lab) => {
      const old = await wellMaster(lab);
      const from = clock();
      await old.kill();
      lab.lostData(from - unreplicatedMs, clock(), "unreplicated");
      let next: RedisNode | undefined;
      return {
        until: async () => {
          next = await successor(lab, old);
          lab.interrupted("master killed", from, dueAfter(from));
        },
        lastsMs: lab.between(0, 1_000),
        heal: () => comeBack(lab, old, next, from),
        tookEffect: () => next !== undefined,
      };
    },
  },
  {
    kind: "Sentinel killed",
    setting: "failover",
    inject: async (lab) => {
      const master = await wellMaster(lab);
      const sentinel = lab.pick(lab.server.sentinels);
      const pid = sentinel?.pid;
      await sentinel?.kill();
      // The killed clients reconnect and query the remaining Sentinels.
      const killed = Number(await master.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"));
      return {
        lastsMs: lab.between(500, 1_500),
        heal: () => sentinel?.start(),
        tookEffect: () => killed > 0 && sentinel?.pid !== pid,
      };
    },
  },
  {
    kind: "master stopped",
    setting: "failover",
    inject: async (lab) => {
      const old = await wellMaster(lab);
      const from = clock();
      old.pause();
      await stopped(old.pid);
      let next: RedisNode | undefined;
      return {
        until: async () => {
          next = await successor(lab, old);
          lab.interrupted("master stopped", from, dueAfter(from));
          await pause(Math.max(0, from + 6_000 - clock()));
        },
        heal: async () => {
          old.resume();
          // For some seconds there are two masters.
          await eventually(async () => {
            if (next && !(await infoOf(old)).includes("role:slave\r\n"))
              throw new Error("the old master still accepts writes");
          }, inStep);
          lab.lostData(from - unreplicatedMs, clock(), "unreplicated");
          if (next && (await wellMaster(lab)) !== next) lab.lostData(from, clock(), "unreplicated");
        },
        tookEffect: () => next !== undefined,
      };
    },
  },
  {
    kind: "replica stopped",
    setting: "failover",
    inject: async (lab) => {
      const master = await wellMaster(lab);
      const replica = lab.pick(serversOf(lab).filter((node) => node !== master));
      const before = lab.logged("short");
      replica?.pause();
      return {
        until: () => grows(() => lab.logged("short"), before),
        lastsMs: lab.between(200, 1_500),
        heal: () => replica?.resume(),
        tookEffect: () => lab.logged("short") > before,
      };
    },
  },
  {
    kind: "replication cut, master killed",
    setting: "failover",
    inject: async (lab) => {
      const old = await wellMaster(lab);
      const replicas = serversOf(lab).filter((node) => node !== old);
      const from = clock();
      // The replicas reconnect at once, and are refused.
      for (const replica of replicas) await login(replica, "nobody", "nothing");
      await old.call("CLIENT", "KILL", "TYPE", "replica");
      await pause(lab.between(200, 800));
      const reached = offsetOf((await infoOf(old)).replace(/^slave_repl_offset.*$/gm, ""));
      const killedAt = clock();
      await old.kill();
      lab.lostData(from - unreplicatedMs, clock(), "unreplicated");
      const had = await Promise.all(replicas.map(async (replica) => offsetOf(await infoOf(replica))));
      for (const replica of replicas) await login(replica, "", "");
      let next: RedisNode | undefined;
      return {
        until: async () => {
          next = await successor(lab, old);
          lab.interrupted("replication cut, master killed", killedAt, dueAfter(killedAt));
        },
        lastsMs: lab.between(0, 1_000),
        heal: () => comeBack(lab, old, next, from),
        tookEffect: () => next !== undefined && had.every((offset) => offset < reached),
      };
    },
  },
  {
    kind: "Cluster master killed",
    setting: "cluster",
    inject: async (lab) => {
      const masters = await wellMasters(lab);
      const old = lab.pick(masters);
      const others = serversOf(lab).filter((node) => node !== old);
      const from = clock();
      await old?.kill();
      lab.lostData(from - unreplicatedMs, clock(), "unreplicated");
      let isFollowed = false;
      return {
        until: async () => {
          await eventually(
            async () => {
              const roles = await Promise.all(others.map(isMaster));
              const states = await Promise.all(others.map((node) => node.call("CLUSTER", "INFO")));
              const isWhole = states.every((state) => String(state).includes("cluster_state:ok\r\n"));
              if (!isWhole || roles.filter(Boolean).length < masters.length) throw new Error("no replica was promoted");
            },
            { timeoutMs: 20_000 },
          );
          isFollowed = true;
          lab.interrupted("Cluster master killed", from, dueAfter(from));
        },
        lastsMs: lab.between(0, 1_000),
        heal: async () => {
          await old?.start();
          if (!isFollowed) lab.lostData(from, clock(), "all");
          await wellMasters(lab);
        },
        tookEffect: () => isFollowed,
      };
    },
  },
];
