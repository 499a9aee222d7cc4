import type { Connection } from "@kit/core";
import { countText, type DoctorCheck, nameIn } from "@kit/core/toolkit";
import { limiterKeys } from "../keys.js";
import { check } from "../scripts/index.js";

/** Keys per step, steps per node, and limiters to read. Together they take a few seconds at most. */
const batch = 1_000;
const maxSteps = 200;
const maxLimiters = 100;

interface Node {
  call(command: string, ...args: (string | number)[]): Promise<unknown>;
}

const mastersOf = (redis: Connection): readonly Node[] => {
  const { nodes } = redis as unknown as { nodes?: (role: "master") => readonly Node[] };
  return nodes ? nodes.call(redis, "master") : [redis as Node];
};

/** The limiters with limits of `setLimits()`. */
const changedOf = async (redis: Connection, prefix: string, signal: AbortSignal): Promise<readonly string[]> => {
  const pattern = `${prefix.replace(/[\\*?[\]]/g, "\\$&")}:limiter:{*}:limits`;
  const found = new Set<string>();
  for (const node of mastersOf(redis))
    for (let cursor = "0", step = 0; step < maxSteps && !signal.aborted; step++) {
      const [next, keys] = (await node.call("SCAN", cursor, "MATCH", pattern, "COUNT", batch)) as [string, string[]];
      for (const key of keys) {
        const name = nameIn(key);
        if (name !== undefined && limiterKeys(prefix, name).limits === key) found.add(name);
      }
      cursor = next;
      if (cursor === "0") break;
    }
  return [...found].toSorted();
};

export const limitsCheck: DoctorCheck = {
  id: "limiter-limits",
  about: `**Problem** for each limiter whose limits of \`setLimits()\` are damaged, or were written by a newer version. All calls of the limiter
reject with \`KIT_LAYOUT\`.

Update the program, or delete the named key: each program's own limits then apply.

The check also shows which limiters have limits of \`setLimits()\`. These limits never expire, and replace the limits in your programs.`,
  look: async ({ redis, prefix, signal }) => {
    const changed = await changedOf(redis, prefix, signal);
    const findings = await Promise.all(
      changed.slice(0, maxLimiters).map(async (name) => {
        const { limits, all } = limiterKeys(prefix, name);
        const read = check.run(redis, { limits, all, rate: all }, { settings: "1,g,1,1,1,0", tokens: 1 });
        const error = await read.then(
          () => undefined,
          (thrown: unknown) => thrown as Error,
        );
        if (!error) return [];
        const text = `limiter ${name} does not work: ${error.message}`;
        return [{ severity: "problem" as const, text, fix: `redis-cli DEL '${limits}'` }];
      }),
    );
    const problems = findings.flat();
    if (problems.length > 0) return problems;
    const text = `limiters with limits of setLimits(): ${countText(changed.length, changed.slice(0, 5))}`;
    return [{ severity: "ok", text }];
  },
};
