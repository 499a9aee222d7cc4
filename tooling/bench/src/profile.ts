// Where a process of ours spends its time, when a goal is missed or on request.
import type { Profiler } from "node:inspector";
import { Lab } from "./lab.js";
import type { Case } from "./suite.js";

export interface HotFunction {
  readonly name: string;
  readonly place: string;
  /** The share of all time in which code ran. */
  readonly share: number;
}

/** Idle time says nothing about the code. */
const isIdle = ({ callFrame }: Profiler.ProfileNode): boolean => callFrame.functionName === "(idle)";

const placeOf = ({ url, lineNumber }: Profiler.ProfileNode["callFrame"]): string =>
  url === "" ? "" : `${url.replace(/^.*\/(?:node_modules|packages|tooling|apps)\//, "")}:${String(lineNumber + 1)}`;

/** The functions with the most time of their own. */
export const hottest = ({ nodes, samples = [], timeDeltas = [] }: Profiler.Profile, count = 10): HotFunction[] => {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const times = new Map<string, { name: string; place: string; time: number }>();
  let total = 0;
  for (const [index, id] of samples.entries()) {
    const node = byId.get(id);
    if (!node || isIdle(node)) continue;
    const time = Math.max(0, timeDeltas[index] ?? 0);
    const name = node.callFrame.functionName || "(anonymous)";
    const place = placeOf(node.callFrame);
    const known = times.get(`${name} ${place}`) ?? { name, place, time: 0 };
    known.time += time;
    times.set(`${name} ${place}`, known);
    total += time;
  }
  return [...times.values()]
    .toSorted((one, other) => other.time - one.time)
    .slice(0, count)
    .map(({ name, place, time }) => ({ name, place, share: total === 0 ? 0 : time / total }));
};

/**
 * Runs a case once more, by our implementation alone, and profiles the last of its processes, since some cases kill the
 * first.
 */
export const profileOurs = async (common: Lab, one: Case, scale: number): Promise<Profiler.Profile> => {
  await using own = one.server && (await Lab.open(common.package, one.server));
  const lab = own ?? common;
  const ours = one.implementations.find(({ peer }) => peer === "kit");
  if (!ours) throw new Error("the case is not about us");
  const [team] = await lab.start([ours], one);
  const watched = team?.workers.at(-1);
  if (!team || !watched) throw new Error("no process to look at");
  try {
    await lab.clear();
    await one.warmUp?.(team, lab, scale);
    await one.prepare?.(team, lab, scale);
    await watched.ask("startProfile");
    if ("together" in one) await one.together([team], lab, scale);
    else await one.measure(team, lab, scale);
    return await watched.ask<Profiler.Profile>("stopProfile");
  } finally {
    await lab.dismiss(team);
  }
};
