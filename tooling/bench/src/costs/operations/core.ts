import { createConfig } from "@kit/core/config";
import { durable } from "@kit/core/durable";
import { optimistic } from "@kit/core";
import type { CostedOperation, IdleObject } from "../operation.js";
import { manyCallers, oneByOne } from "../operation.js";

export const operations: readonly CostedOperation[] = [
  {
    package: "core",
    name: "read of a configuration",
    about: "`config.current`",
    count: 1_000,
    open: async (scene) => {
      const config = scene.own(createConfig(await scene.client(), "search", { default: { limit: 50 } }));
      await config.ready();
      return { run: oneByOne(() => Promise.resolve(config.current)) };
    },
  },
  {
    package: "core",
    name: "change of a configuration",
    about: "and its read by one process",
    count: 500,
    callers: manyCallers,
    open: async (scene) => {
      const name = `search ${String(scene.index)}`;
      const config = scene.own(createConfig(await scene.client(), name, { default: { limit: 0 } }));
      await config.ready();
      return { run: oneByOne((limit) => config.set({ limit })) };
    },
  },
  {
    package: "core",
    name: "transaction (`optimistic`)",
    about: "one read, one write, no conflict",
    count: 1_000,
    callers: manyCallers,
    open: async (scene) => {
      const redis = await scene.client();
      const stock = `stock:${String(scene.index)}`;
      return {
        run: oneByOne(() =>
          optimistic(redis, [stock], async (tx) => {
            await tx.call("GET", stock);
            tx.queue("INCR", stock);
          }),
        ),
      };
    },
  },
  {
    package: "core",
    name: "durable write",
    about: "confirmed by one replica",
    count: 100,
    replicas: 1,
    isOnCluster: false,
    open: async (scene) => {
      const redis = await scene.client();
      return {
        run: oneByOne(async () => {
          const write = await durable(redis, { key: "order:7", replicas: 1, timeoutMs: 5_000 }, (order) =>
            order.call("SET", "order:7", "paid"),
          );
          if (write.outcome !== "safe") throw new Error(`The write is ${write.outcome}: ${String(write.why)}`);
        }),
      };
    },
  },
];

export const idle: readonly IdleObject[] = [
  {
    package: "core",
    name: "a client of `connect()`",
    about: "",
    open: async (scene) => scene.client(),
  },
  {
    package: "core",
    name: "a configuration that is followed",
    about: "`pollMs` of 30 s",
    open: async (scene) => {
      const config = scene.own(createConfig(await scene.client(), "idle", { default: {} }));
      await config.ready();
    },
  },
];
