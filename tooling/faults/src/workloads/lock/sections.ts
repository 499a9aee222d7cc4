import { clockErrorMs } from "../../records.js";
import type { RunHistory } from "./history.js";

/** Facts about the sections under the locks, as their own processes saw them. */
export const sectionsOf = ({ workers }: Pick<RunHistory, "workers">): Record<string, number> => {
  const records = workers.flatMap((worker) => worker.records);
  const holds = records.filter((record) => record.kind === "hold").toSorted((a, b) => a.grantedAt - b.grantedAt);
  const ends = new Map<string, number>();
  const newest = new Map<string, bigint>();
  const found = { sections: 0, overlapping: 0, "tokens that did not grow": 0 };
  for (const { name, fence, grantedAt, endedAt, abortedAt = endedAt } of holds) {
    const [end = 0, token = 0n] = [ends.get(name), newest.get(name)];
    found.sections++;
    if (grantedAt + clockErrorMs < end) found.overlapping++;
    if (BigInt(fence) <= token) found["tokens that did not grow"]++;
    ends.set(name, Math.max(end, Math.min(endedAt, abortedAt)));
    newest.set(name, BigInt(fence) > token ? BigInt(fence) : token);
  }
  const tokens = new Set(holds.map(({ name, fence }) => `${name} ${fence}`)).size;
  return { ...found, "distinct tokens": tokens };
};
