import { counted, type Finding } from "@kit/core/toolkit";
import type { ServerNode } from "../node.js";
import { knownPackages } from "../packages.js";
import type { Server } from "../server.js";
import { type Check, ok, onEachNode, problem, warning } from "./check.js";

/** Keys per step, steps, and keys of kit: a server replies to all of these in well under a second. */
const batch = 500;
const maxSteps = 200;
const maxOurs = 5_000;

/** The entries of `@kit/core/config`, which stay for good. */
const ofCore = /^config:\{.*\}:(entry|history)$/s;

/** The fault of a key that has no expiry; undefined when there is none, or when it is unknown here. */
interface Trouble {
  readonly text: string;
  readonly fix: string;
}

const ofNobody: Trouble = {
  text: "keys without an expiry that no package keeps permanently",
  fix: "Find the program that writes them. If it is yours, use a different prefix for its keys.",
};

/** `key`: without the prefix. */
const troubleOf = (key: string, packages: Server["packages"]): Trouble | undefined => {
  if (ofCore.test(key)) return undefined;
  const [owner = ""] = key.split(":", 1);
  const known = packages.find(({ name }) => name === owner);
  // The permanent keys of a package are known only if it is installed.
  if (!known) return knownPackages.includes(owner) ? undefined : ofNobody;
  const rest = key.slice(owner.length + 1);
  const kind = (known.endlessKeys ?? []).find((one) => one.key.test(rest));
  return kind ? kind.problem : ofNobody;
};

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
      const { prefix, packages } = server;
      const { looked, endless, isWhole } = await sample(node, prefix);
      const troubled = new Map<Trouble, string[]>();
      for (const key of endless) {
        const trouble = troubleOf(key.slice(prefix.length + 1), packages);
        if (trouble) troubled.set(trouble, [...(troubled.get(trouble) ?? []), key]);
      }
      const found = [...troubled]
        .toSorted(([a], [b]) => Number(a === ofNobody) - Number(b === ofNobody))
        .map(([trouble, keys]): Finding => {
          const text = `${trouble.text}: ${some(keys)}`;
          return trouble === ofNobody ? warning(text, trouble.fix) : problem(text, trouble.fix);
        });
      const scope = `${counted(looked, "key")} under ${prefix}:* checked${isWhole ? "" : " (a sample)"}`;
      return found.length > 0 ? found : [ok(`${scope}, no expiry is missing`)];
    }),
};
