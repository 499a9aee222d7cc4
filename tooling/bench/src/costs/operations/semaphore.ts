import { createSemaphore, type Semaphore } from "@kit/semaphore";
import type { CostedOperation, IdleObject, StoredObject } from "../operation.js";
import { inGroups, manyCallers, oneByOne } from "../operation.js";
import type { Scene } from "../scene.js";

const semaphoreOn = async (scene: Scene, name: string, permits: number): Promise<Semaphore> =>
  scene.own(createSemaphore(await scene.client(), name, { permits }));

const pair = async (semaphore: Semaphore): Promise<void> => {
  const permit = await semaphore.acquire();
  await permit.release();
};

const contenders = 5;

export const operations: readonly CostedOperation[] = [
  {
    package: "semaphore",
    name: "acquire and release, room",
    about: "",
    count: 2_000,
    callers: manyCallers,
    open: async (scene) => {
      const semaphore = await semaphoreOn(scene, `render ${String(scene.index)}`, 5);
      return { run: oneByOne(() => pair(semaphore)) };
    },
  },
  {
    package: "semaphore",
    name: "acquire and release, contended",
    about: `two permits, ${String(2 * contenders)} callers of two processes`,
    count: 500,
    open: async (scene) => {
      const semaphores = [await semaphoreOn(scene, "hot", 2), await semaphoreOn(scene, "hot", 2)];
      return {
        run: (count) =>
          Promise.all(
            semaphores.map(async (semaphore) => {
              const each = count / semaphores.length / contenders;
              const caller = oneByOne(() => pair(semaphore));
              await Promise.all(Array.from({ length: contenders }, () => caller(each)));
            }),
          ),
      };
    },
  },
];

export const stored: readonly StoredObject[] = [
  {
    package: "semaphore",
    name: "a held permit",
    about: "",
    count: 10_000,
    store: async (scene, count) => {
      const semaphore = await semaphoreOn(scene, "wide", count);
      await inGroups(1_000, () => semaphore.acquire({ leaseMs: 3_600_000 }))(count);
    },
  },
];

export const idle: readonly IdleObject[] = [
  {
    package: "semaphore",
    name: "a held permit",
    about: "lease of 10 s",
    open: async (scene) => (await semaphoreOn(scene, "held", 5)).acquire(),
  },
  {
    package: "semaphore",
    name: "callers that wait for a permit",
    about: "ten of one process",
    open: async (scene) => {
      const semaphore = await semaphoreOn(scene, "full", 1);
      await (await semaphoreOn(scene, "full", 1)).acquire({ leaseMs: 3_600_000 });
      for (let caller = 0; caller < 10; caller++) void semaphore.acquire().catch(() => undefined);
    },
  },
];
