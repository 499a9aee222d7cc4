import type { ServerNode } from "../node.js";
import { type Check, type Finding, ok, onEachNode, problem, warning } from "./check.js";

/** Keys per step, steps, and keys of ours: what a server answers in well under a second. */
const batch = 500;
const maxSteps = 200;
const maxOurs = 5_000;

/** Keys that stay for good, as the packages' `keys.ts` say. */
const permanent = /^config:\{.*\}:(entry|history)$/s;
const lease = /^lock:\{.*\}:lease$/s;

interface Sample {
  readonly looked: number;
  readonly endless: readonly string[];
  readonly isWhole: boolean;
}

const sample = async (node: ServerNode, prefix: string): Promise<Sample> => {
  const endless: string[] = [];
  const pattern = `${prefix.replace(/[\\*?[\]]/g, "\\$&")}:*`;
  let cursor = "0";
  let looked = 0;
  for (let step = 0; step < maxSteps && looked < maxOurs; step++) {
    const [next, keys] = (await node.call("SCAN", cursor, "MATCH", pattern, "COUNT", batch)) as [string, string[]];
    const lives = await Promise.all(keys.map((key) => node.call("PTTL", key)));
    endless.push(...keys.filter((_, index) => lives[index] === -1));
    looked += keys.length;
    cursor = next;
    if (cursor === "0") return { looked, endless, isWhole: true };
  }
  return { looked, endless, isWhole: false };
};

const some = (keys: readonly string[]): string =>
  `${keys.slice(0, 3).join(", ")}${keys.length > 3 ? `, and ${String(keys.length - 3)} more` : ""}`;

export const keysWithoutExpiry: Check = {
  id: "keys-without-expiry",
  look: (server) =>
    onEachNode(server, async (node) => {
      const { prefix } = server;
      const { looked, endless, isWhole } = await sample(node, prefix);
      const within = (key: string): string => key.slice(prefix.length + 1);
      const stuck = endless.filter((key) => lease.test(within(key)));
      const others = endless.filter((key) => !lease.test(within(key)) && !permanent.test(within(key)));
      const found: Finding[] = [];
      if (stuck.length > 0)
        found.push(
          problem(
            `locks that are held for ever: ${some(stuck)}`,
            "Somebody took their expiry away (PERSIST, or a restore). If the holder is gone: lock.forceRelease(name).",
          ),
        );
      if (others.length > 0)
        found.push(
          warning(
            `keys that never expire and that no package keeps for good: ${some(others)}`,
            "Find out who writes them. If they are yours, use another prefix than the packages do.",
          ),
        );
      const scope = `${String(looked)} keys under ${prefix}:${isWhole ? "" : ", a part of them"}`;
      return found.length > 0 ? found : [ok(`${scope}, and each expires that should`)];
    }),
};
