import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FaultProxy, type RedisMode, type RedisNode, type RedisServer, startRedis } from "@kit/testing";
import type { Setting } from "./setting.js";
import { ControlFile, shims } from "./shims.js";
import { Tap } from "./tap.js";

/** The user that workers log in as, so that it can be deleted. */
export const user = "worker";
export const password = "fault-lab";
const logins = ["--user", user, "on", `>${password}`, "~*", "&*", "+@all"];

/** The server of a setting. */
const modeOf: Readonly<Record<Setting, RedisMode>> = {
  kept: "single",
  lost: "single",
  shifted: "single",
  failover: "sentinel",
  cluster: "cluster",
  address: "single",
  resharded: "cluster",
};

/** Settings with the register beside the servers that are concerned, so that it loses nothing and does not move. */
const hasOwnResource: readonly Setting[] = ["lost", "shifted", "address", "resharded"];

/** The arguments of a server that has no Cluster yet. */
const clusterArgs = ["--cluster-enabled", "yes", "--cluster-node-timeout", "1000"];

/** Everything around the workers of one run. */
export interface Surroundings {
  readonly folder: string;
  readonly server: RedisServer;
  /** Where the guarded resource lives. */
  readonly resource: RedisServer;
  /** A server that joins the Cluster and leaves it again. */
  readonly spare: RedisNode | undefined;
  readonly proxy: FaultProxy | undefined;
  readonly tap: Tap | undefined;
  /** Undefined if there are no shims. */
  readonly clientClock: ControlFile | undefined;
  readonly serverClock: ControlFile | undefined;
  readonly syncDelay: ControlFile | undefined;
  /** The synced writes. */
  readonly notes: string;
  readonly workerEnv: Readonly<Record<string, string>>;
  readonly close: () => Promise<void>;
}

/** Starts the servers, and the proxies between them and the workers. */
export const surround = async ({
  seed,
  setting,
}: {
  readonly seed: number;
  readonly setting: Setting;
}): Promise<Surroundings> => {
  const mode = modeOf[setting];
  const folder = mkdtempSync(join(tmpdir(), "kit-faults-"));
  // A process that was just killed may still be writing to the folder.
  const removeFolder = (): void => rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
  process.once("exit", removeFolder);
  const notes = join(folder, "synced");
  mkdirSync(notes);
  const isSingle = mode === "single";
  const isAlone = isSingle && setting !== "address";
  const built = isAlone ? shims() : "several servers run as they are";
  const hasShims = typeof built !== "string";
  const control = (name: string): ControlFile | undefined =>
    hasShims ? new ControlFile(join(folder, name)) : undefined;
  const [clientClock, serverClock] = [control("client-clock"), control("server-clock")];
  const syncDelay = control("synced/delay");
  const preload = hasShims ? `${built.clockJump}:${built.powerCut}` : "";
  const serverEnv = serverClock && { LD_PRELOAD: preload, KIT_CLOCK_JUMP: serverClock.path, KIT_POWER_CUT: notes };
  const ends: (() => Promise<void>)[] = [];
  // Each is closed even if closing another fails, since any open one keeps this process alive.
  const close = async (): Promise<void> => {
    const ended = await Promise.allSettled(ends.map((end) => end()));
    process.off("exit", removeFolder);
    removeFolder();
    for (const one of ended) if (one.status === "rejected") throw one.reason;
  };
  try {
    const server = await startRedis({
      mode,
      persistence: isAlone ? "always" : "none",
      ...((setting === "cluster" || setting === "address") && { replicas: 1 }),
      ...(isSingle && { args: logins }),
      ...(serverEnv && { env: serverEnv }),
    });
    ends.push(() => server.stop());
    const resource = hasOwnResource.includes(setting) ? await startRedis() : server;
    ends.push(() => resource.stop());
    const spare = setting === "resharded" ? await startRedis({ args: clusterArgs }) : undefined;
    ends.push(async () => await spare?.stop());
    const again = server.client({ enableAutoPipelining: false });
    const port = server.nodes[0]?.port ?? 0;
    const tap = isSingle ? await Tap.start(port, (command, args) => again.call(command, ...args)) : undefined;
    ends.push(async () => await tap?.close());
    const proxy = tap && (await FaultProxy.start({ port: tap.port, seed }));
    ends.push(async () => await proxy?.close());
    return {
      folder,
      server,
      resource,
      spare: spare?.nodes[0],
      proxy,
      tap,
      clientClock,
      serverClock,
      syncDelay,
      notes,
      workerEnv: hasShims && clientClock ? { LD_PRELOAD: built.clockJump, KIT_CLOCK_JUMP: clientClock.path } : {},
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
};
