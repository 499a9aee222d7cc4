import { pause } from "@kit/core/toolkit";
import { eventually, type RedisNode } from "@kit/testing";
import { clock } from "@tooling/lab";
import type { Lab } from "../lab/lab.js";
import { followMs, inStep, isMaster } from "./failover.js";
import type { Fault } from "./fault.js";

const cluster = async (node: RedisNode, ...command: string[]): Promise<string> =>
  String(await node.call("CLUSTER", ...command));

const mastersOf = async ({ server }: Lab): Promise<RedisNode[]> => {
  const nodes = [...server.nodes, ...server.replicas];
  const roles = await Promise.all(nodes.map(isMaster));
  return nodes.filter((_, at) => roles[at]);
};

/** Resolves once these nodes know of each other, and each reports all slots as served. */
const inAgreement = async (nodes: readonly RedisNode[]): Promise<void> =>
  await eventually(async () => {
    for (const node of nodes) {
      const state = await cluster(node, "INFO");
      if (!state.includes("cluster_state:ok\r\n") || !state.includes(`cluster_known_nodes:${String(nodes.length)}\r\n`))
        throw new Error(`node ${String(node.port)} does not see all of the Cluster`);
    }
  }, inStep);

/** A node's slots, and the epoch of their owner, as `node` reports them. */
const claimOf = async (node: RedisNode, owner: string): Promise<string> => {
  const line = (await cluster(node, "NODES")).split("\n").find((text) => text.startsWith(owner)) ?? "";
  const [epoch, , ...ranges] = line.split(" ").slice(6);
  // `node` lists its own moves beside its slots.
  return [epoch, ...ranges.filter((range) => !range.startsWith("["))].join(" ");
};

/**
 * Resolves once all report the same of a slot's owner. A slot that moves on before that may get the same epoch from two
 * nodes. They then decide its owner between them, and meanwhile both serve it: two servers with data of their own.
 */
const agreedOn = async (owner: string, nodes: readonly RedisNode[]): Promise<void> =>
  await eventually(async () => {
    const claims = new Set(await Promise.all(nodes.map((node) => claimOf(node, owner))));
    if (claims.size > 1) throw new Error(`the nodes report different slots: ${[...claims].join("; ")}`);
  }, inStep);

/** Keys that one MIGRATE takes along, as `redis-cli --cluster reshard` does. */
const pipelined = 10;

/**
 * Moves a slot while it is used, by the commands of `redis-cli --cluster reshard`, with pauses in between. So calls meet it
 * with all of its keys, with some, and with none.
 */
const moveSlot = async (lab: Lab, slot: string, from: RedisNode, to: RedisNode, all: RedisNode[]): Promise<void> => {
  await cluster(to, "SETSLOT", slot, "IMPORTING", await cluster(from, "MYID"));
  await cluster(from, "SETSLOT", slot, "MIGRATING", await cluster(to, "MYID"));
  await pause(lab.between(0, 40));
  for (;;) {
    const keys = (await from.call("CLUSTER", "GETKEYSINSLOT", slot, String(pipelined))) as string[];
    if (keys.length === 0) break;
    // One by one where there are few, so that a script finds a part of its keys.
    const some = keys.length < pipelined ? [lab.pick(keys) ?? ""] : keys;
    await from.call("MIGRATE", to.host, String(to.port), "", "0", "5000", "KEYS", ...some);
    await pause(lab.between(0, 10));
  }
  const owner = await cluster(to, "MYID");
  // The new owner first: else nobody would own the slot if this process died in between.
  for (const node of new Set([to, from, ...all]))
    await cluster(node, "SETSLOT", slot, "NODE", owner).catch((error: unknown) => {
      // A master without slots follows the owner of its last one, whose messages may reach it first.
      if (!String(error).includes("only with masters")) throw error;
    });
  await agreedOn(owner, all);
};

/** The slot of any key on a node; undefined if it has none. */
const usedSlot = async (node: RedisNode): Promise<string | undefined> => {
  const key = await node.call("RANDOMKEY");
  return typeof key === "string" ? await cluster(node, "KEYSLOT", key) : undefined;
};

/** Moves up to `count` slots in use from any of `sources` to any of `targets`. Resolves with the number moved. */
const moveSome = async (
  lab: Lab,
  count: number,
  sources: readonly RedisNode[],
  targets: readonly RedisNode[],
  all: RedisNode[],
): Promise<number> => {
  let moved = 0;
  for (let tries = 0; moved < count && tries < 10 * count; tries++) {
    const from = lab.pick(sources);
    const to = lab.pick(targets.filter((node) => node !== from));
    const slot = from && (await usedSlot(from));
    if (slot === undefined || !from || !to) continue;
    await moveSlot(lab, slot, from, to, all);
    moved++;
  }
  return moved;
};

/** The slots that a node owns. */
const slotsOf = async (node: RedisNode): Promise<string[]> => {
  const own = (await cluster(node, "NODES")).split("\n").find((line) => line.includes("myself")) ?? "";
  const ranges = own.split(" ").slice(8);
  return ranges.flatMap((range) => {
    const [from = 0, to = from] = range.split("-").map(Number);
    return Number.isNaN(from) ? [] : Array.from({ length: to - from + 1 }, (_, at) => String(from + at));
  });
};

/** Removes a node without slots, as a scale-in does. It runs on, and its links stay open. */
const remove = async (node: RedisNode, others: readonly RedisNode[]): Promise<void> => {
  const id = await cluster(node, "MYID");
  for (const other of others) await cluster(other, "FORGET", id);
  await cluster(node, "RESET", "HARD");
};

const clientsOf = async (node: RedisNode): Promise<number> =>
  String(await node.call("CLIENT", "LIST")).split("\n").length - 2;

/** Faults of a Cluster that is changed while it is used. No data is lost. */
export const reshardFaults: readonly Fault[] = [
  {
    kind: "slot moved while in use",
    setting: "resharded",
    times: 4,
    inject: async (lab) => {
      const masters = await mastersOf(lab);
      await inAgreement([...lab.server.nodes, ...lab.server.replicas]);
      let moved = 0;
      return {
        until: async () => {
          moved = await moveSome(lab, 3, masters, masters, masters);
        },
        tookEffect: () => moved > 0,
      };
    },
  },
  {
    kind: "node removed and reset",
    setting: "resharded",
    inject: async (lab) => {
      const { spare } = lab.around;
      if (!spare) throw new Error("there is no node to add");
      const masters = await mastersOf(lab);
      const others = [...lab.server.nodes, ...lab.server.replicas];
      await cluster(spare, "MEET", masters[0]?.host ?? "", String(masters[0]?.port));
      await inAgreement([...others, spare]);
      const all = [...masters, spare];
      const moved = await moveSome(lab, 3, masters, [spare], all);
      await pause(lab.between(300, 800));
      let clients = 0;
      return {
        until: async () => {
          for (const slot of await slotsOf(spare)) await moveSlot(lab, slot, spare, lab.pick(masters) ?? spare, all);
          clients = await clientsOf(spare);
          // At once, so that some do not know yet that its slots are gone.
          await remove(spare, others);
          lab.interrupted("node removed and reset", clock(), followMs);
        },
        // Links that stayed behind are to be found out within two seconds.
        lastsMs: lab.between(2_600, 3_200),
        tookEffect: async () => {
          const seen = await Promise.all(others.map((node) => cluster(node, "NODES")));
          return moved > 0 && clients > 0 && seen.every((text) => !text.includes(`:${String(spare.port)}@`));
        },
      };
    },
  },
];
