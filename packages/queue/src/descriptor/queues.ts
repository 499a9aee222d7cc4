import type { Connection } from "@kit/core";
import { type DoctorCheck, nameIn } from "@kit/core/toolkit";
import type { QueueKeys } from "../job/keys.js";

/** Keys per step, steps per node, and queues to look at. Together they take a few seconds at most. */
const batch = 1_000;
const maxSteps = 200;
const maxQueues = 100;

interface Node {
  call(command: string, ...args: (string | number)[]): Promise<unknown>;
}

const mastersOf = (redis: Connection): readonly Node[] => {
  const { nodes } = redis as unknown as { nodes?: (role: "master") => readonly Node[] };
  return nodes ? nodes.call(redis, "master") : [redis as Node];
};

/** The names that the check has got, or else the names of queues that have this part, up to 100. */
export const queuesWith = async (
  part: keyof QueueKeys,
  { redis, prefix, signal, names }: Parameters<DoctorCheck["look"]>[0],
): Promise<readonly string[]> => {
  if (names) return names;
  const [head, tail] = [`${prefix}:queue:`, `:${part}`];
  const pattern = `${head.replace(/[\\*?[\]]/g, "\\$&")}{*}${tail}`;
  const found = new Set<string>();
  for (const node of mastersOf(redis)) {
    let cursor = "0";
    for (let step = 0; step < maxSteps && !signal.aborted; step++) {
      const [next, keys] = (await node.call("SCAN", cursor, "MATCH", pattern, "COUNT", batch)) as [string, string[]];
      for (const key of keys) {
        const name = nameIn(key.slice(head.length, -tail.length));
        if (name !== undefined && found.size < maxQueues) found.add(name);
      }
      cursor = next;
      if (cursor === "0") break;
    }
  }
  return [...found].toSorted();
};
