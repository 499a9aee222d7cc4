import type { Connection } from "@kit/core";
import { counted, type DoctorCheck, nameIn, secondsText } from "@kit/core/toolkit";
import { inspectQueue } from "../manage/index.js";

/** Keys per step, steps on each node, and queues that are looked at: a few seconds at most. */
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

/** The queues that have limits. */
const limitedQueues = async (redis: Connection, prefix: string, signal: AbortSignal): Promise<readonly string[]> => {
  const [head, tail] = [`${prefix}:queue:`, ":limits"];
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

export const pausedCheck: DoctorCheck = {
  id: "queue-paused",
  about: `Warns of each queue that is paused. Its workers begin no job, and its jobs become more and more. A pause has no end of its own: it
stays also when all workers are started anew.

\`kit queue resume NAME\` lets the queue go on.`,
  look: async ({ redis, prefix, signal }) => {
    const queues = await limitedQueues(redis, prefix, signal);
    const findings = await Promise.all(
      queues.map(async (queue) => {
        const { pausedAt, now, waiting, prioritised } = await inspectQueue(redis, { queue, prefix });
        if (pausedAt === null) return [];
        const text = `queue ${queue} has been paused for ${secondsText(Math.max(0, now - pausedAt))}, with ${counted(waiting + prioritised, "ready job")}`;
        return [{ severity: "warning" as const, text, fix: `kit queue resume ${queue}` }];
      }),
    );
    const paused = findings.flat();
    return paused.length > 0 ? paused : [{ severity: "ok", text: "no queue is paused" }];
  },
};
