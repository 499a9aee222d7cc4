import { createLock, type Lock } from "@kit/lock";
import type { CostedOperation, IdleObject, StoredObject } from "../operation.js";
import { inGroups, manyCallers, oneByOne } from "../operation.js";
import type { Scene } from "../scene.js";

const lockOn = async (scene: Scene): Promise<Lock> => scene.own(createLock(await scene.client()));

const pair = async (lock: Lock, name: string): Promise<void> => {
  const lease = await lock.acquire(name);
  await lease.release();
};

const contenders = 5;
/** None ends, and none is renewed, while all are stored. */
const storedLeaseMs = 3_600_000;

export const operations: readonly CostedOperation[] = [
  {
    package: "lock",
    name: "acquire and release, free",
    about: "no other callers",
    count: 2_000,
    callers: manyCallers,
    open: async (scene) => {
      const lock = await lockOn(scene);
      return { run: oneByOne((index) => pair(lock, `item:${String(scene.index)}:${String(index % 100)}`)) };
    },
  },
  {
    package: "lock",
    name: "acquire and release, contended",
    about: `${String(2 * contenders)} callers of two processes, one name`,
    count: 500,
    open: async (scene) => {
      const locks = [await lockOn(scene), await lockOn(scene)];
      return {
        run: (count) =>
          Promise.all(
            locks.map(async (lock) => {
              const each = count / locks.length / contenders;
              const caller = oneByOne(() => pair(lock, "hot"));
              await Promise.all(Array.from({ length: contenders }, () => caller(each)));
            }),
          ),
      };
    },
  },
  {
    package: "lock",
    name: "renewal of one lease",
    about: "on one server, up to 100 leases of a process share it",
    count: 500,
    callers: manyCallers,
    open: async (scene) => {
      const lease = await (await lockOn(scene)).acquire(`held:${String(scene.index)}`);
      return { run: oneByOne(() => lease.extend()) };
    },
  },
];

export const stored: readonly StoredObject[] = [
  {
    package: "lock",
    name: "a held lock",
    about: "",
    count: 10_000,
    store: async (scene, count) => {
      const lock = await lockOn(scene);
      await inGroups(1_000, (index) => lock.acquire(`order:${String(10_000_000 + index)}`, { leaseMs: storedLeaseMs }))(
        count,
      );
    },
  },
  {
    package: "lock",
    name: "a name that was released",
    about: "for a week, or `keepMs`",
    count: 10_000,
    store: async (scene, count) => {
      const lock = await lockOn(scene);
      await inGroups(1_000, (index) => pair(lock, `order:${String(10_000_000 + index)}`))(count);
    },
  },
];

export const idle: readonly IdleObject[] = [
  {
    package: "lock",
    name: "a held lock",
    about: "lease of 10 s",
    open: async (scene) => (await lockOn(scene)).acquire("held"),
  },
  {
    package: "lock",
    name: "1,000 held locks of one process",
    about: "lease of 10 s",
    open: async (scene) => {
      const lock = await lockOn(scene);
      await inGroups(100, (index) => lock.acquire(`one of many:${String(index)}`))(1_000);
    },
  },
  {
    package: "lock",
    name: "a held lock, leaseMs 60,000",
    about: "",
    open: async (scene) => (await lockOn(scene)).acquire("held longer", { leaseMs: 60_000 }),
  },
  {
    package: "lock",
    name: "callers that wait for one name",
    about: "ten of one process",
    open: async (scene) => {
      // Renewed every twenty minutes, so not while it is measured.
      const lock = await lockOn(scene);
      await (await lockOn(scene)).acquire("waited for", { leaseMs: 3_600_000 });
      for (let caller = 0; caller < 10; caller++) void lock.acquire("waited for").catch(() => undefined);
    },
  },
];
