import { eventually } from "@kit/testing";
import type { Lab } from "../lab/lab.js";
import { grows } from "../lab/waits.js";
import { stopped } from "../lab/process-state.js";
import type { Injection, Fault } from "./fault.js";

/** Settings that make the server refuse commands with an error reply of this kind. */
const refusing = async (
  lab: Lab,
  code: string,
  begin: () => Promise<unknown>,
  heal: () => Promise<unknown>,
): Promise<Injection> => {
  const before = await lab.errors(code);
  await begin();
  return {
    until: () => grows(() => lab.errors(code), before),
    lastsMs: lab.between(0, 0.5) * lab.leaseMs,
    heal,
    tookEffect: async () => (await lab.errors(code)) > before,
  };
};

const killClients = async (lab: Lab, ...filter: string[]): Promise<number> => {
  const killed = await Promise.all(lab.server.nodes.map((node) => node.call("CLIENT", "KILL", ...filter)));
  return killed.reduce<number>((sum, count) => sum + Number(count), 0);
};

/** Kills the command connection of one worker, or those of all. Resolves with the number killed. */
const killCommandConnections = async (lab: Lab): Promise<number> => {
  if (lab.random() < 0.5) return await killClients(lab, "TYPE", "normal", "SKIPME", "yes");
  const node = lab.pick(lab.server.nodes);
  const list = String(await node?.call("CLIENT", "LIST", "TYPE", "normal"));
  const ids = [...list.matchAll(/^id=(\d+) .* name=w\d+\S* /gm)].map(([, id = ""]) => id);
  const id = lab.pick(ids);
  // The connection may have closed by itself.
  return id === undefined ? 0 : Number(await node?.call("CLIENT", "KILL", "ID", id));
};

const expectBusy = async (lab: Lab): Promise<void> => {
  const answer = await lab.node.call("PING").catch(String);
  if (!String(answer).includes("BUSY")) throw new Error("no script keeps the server busy");
};

const replicaOf = (lab: Lab, ...master: readonly string[]): Promise<unknown> => lab.node.call("REPLICAOF", ...master);
/** A port without a listener. */
const nowhere = ["127.0.0.1", "1"];

const killAndStart = async (lab: Lab, policy: "always" | "everysec"): Promise<Injection> => {
  const { pid } = lab.node;
  // Acknowledged writes are at least in the page cache, which survives the process.
  await lab.set(["appendfsync", policy]);
  await lab.node.kill();
  return {
    lastsMs: lab.between(0, 300),
    heal: () => lab.node.start(),
    tookEffect: () => lab.node.pid !== pid,
  };
};

/** Faults of a server that keeps its data. */
export const serverFaults: readonly Fault[] = [
  {
    kind: "server killed, everysec",
    setting: "kept",
    inject: (lab) => killAndStart(lab, "everysec"),
  },
  { kind: "server killed, always", setting: "kept", inject: (lab) => killAndStart(lab, "always") },
  {
    kind: "scripts flushed",
    setting: "kept",
    inject: async (lab) => {
      const before = await lab.errors("NOSCRIPT");
      await Promise.all(lab.server.nodes.map((node) => node.call("SCRIPT", "FLUSH")));
      return {
        until: () => grows(() => lab.errors("NOSCRIPT"), before),
        tookEffect: async () => (await lab.errors("NOSCRIPT")) > before,
      };
    },
  },
  {
    kind: "command connections killed",
    setting: "kept",
    inject: async (lab) => {
      const killed = await killCommandConnections(lab);
      return { tookEffect: () => killed > 0 };
    },
  },
  {
    kind: "subscribers killed",
    setting: "kept",
    inject: async (lab) => {
      const killed = await killClients(lab, "TYPE", "pubsub");
      return { tookEffect: () => killed > 0 };
    },
  },
  {
    kind: "server full",
    setting: "kept",
    inject: (lab) =>
      refusing(
        lab,
        "OOM",
        () => lab.set(["maxmemory-policy", "noeviction"], ["maxmemory", 1]),
        () => lab.set(["maxmemory", 0]),
      ),
  },
  {
    kind: "server sleeps",
    setting: "kept",
    inject: async (lab) => {
      const seconds = lab.outageMs() / 1_000;
      const startedAt = performance.now();
      await lab.node.call("DEBUG", "SLEEP", seconds.toFixed(3));
      const tookMs = performance.now() - startedAt;
      return { tookEffect: () => tookMs > 900 * seconds };
    },
  },
  {
    kind: "server stopped",
    setting: "kept",
    inject: async (lab) => {
      lab.node.pause();
      await stopped(lab.node.pid);
      return { lastsMs: lab.outageMs(), heal: () => lab.node.resume(), tookEffect: () => true };
    },
  },
  {
    kind: "busy script",
    setting: "kept",
    inject: async (lab) => {
      const before = await lab.errors("BUSY");
      await lab.set(["lua-time-limit", 20]);
      const client = lab.server.client();
      const script = client.call("EVAL", "while true do end", "0").catch(() => undefined);
      return {
        // From then on the server accepts only SCRIPT KILL and SHUTDOWN.
        until: () => eventually(() => expectBusy(lab)),
        lastsMs: lab.outageMs(),
        heal: async () => {
          await lab.node.call("SCRIPT", "KILL");
          await script;
          client.disconnect();
          await lab.set(["lua-time-limit", 5_000]);
        },
        tookEffect: async () => (await lab.errors("BUSY")) > before,
      };
    },
  },
  {
    kind: "NOREPLICAS",
    setting: "kept",
    inject: (lab) =>
      refusing(
        lab,
        "NOREPLICAS",
        () => lab.set(["min-replicas-to-write", 1]),
        () => lab.set(["min-replicas-to-write", 0]),
      ),
  },
  {
    kind: "READONLY",
    setting: "kept",
    inject: (lab) =>
      refusing(
        lab,
        "READONLY",
        () => replicaOf(lab, ...nowhere),
        () => replicaOf(lab, "NO", "ONE"),
      ),
  },
  {
    kind: "MASTERDOWN",
    setting: "kept",
    inject: (lab) =>
      refusing(
        lab,
        "MASTERDOWN",
        async () => {
          await lab.set(["replica-serve-stale-data", "no"]);
          await replicaOf(lab, ...nowhere);
        },
        async () => {
          await replicaOf(lab, "NO", "ONE");
          await lab.set(["replica-serve-stale-data", "yes"]);
        },
      ),
  },
  {
    kind: "LOADING",
    setting: "kept",
    inject: async (lab) => {
      const before = await lab.errors("LOADING");
      // Keys to load slowly; `key-load-delay` is in microseconds.
      await lab.node.call("DEBUG", "POPULATE", "2000", "filler");
      await lab.set(["key-load-delay", 100], ["loading-process-events-interval-bytes", 1_024]);
      return {
        until: () => lab.node.call("DEBUG", "RELOAD"),
        heal: async () => {
          await lab.set(["key-load-delay", 0]);
          const script = "for i = 0, 1999 do redis.call('UNLINK', 'filler:' .. i) end";
          await lab.node.call("EVAL", script, "0");
        },
        tookEffect: async () => (await lab.errors("LOADING")) > before,
      };
    },
  },
  {
    kind: "user deleted",
    setting: "kept",
    inject: async (lab) => {
      const list = String(await lab.node.call("ACL", "LIST"));
      const rule = /^user (worker .*)$/m.exec(list.replaceAll(",", "\n"))?.[1]?.split(" ") ?? [];
      return await refusing(
        lab,
        "WRONGPASS",
        () => lab.node.call("ACL", "DELUSER", "worker"),
        () => lab.node.call("ACL", "SETUSER", ...rule),
      );
    },
  },
  {
    kind: "no more connections",
    setting: "kept",
    inject: async (lab) => {
      const refused = (): Promise<number> => lab.count("stats", /rejected_connections:(\d+)/);
      const before = await refused();
      await lab.set(["maxclients", 4]);
      await killClients(lab, "TYPE", "normal", "SKIPME", "yes");
      return {
        until: () => grows(refused, before),
        lastsMs: lab.between(0, 1) * lab.leaseMs,
        heal: () => lab.set(["maxclients", 10_000]),
        tookEffect: async () => (await refused()) > before,
      };
    },
  },
];
