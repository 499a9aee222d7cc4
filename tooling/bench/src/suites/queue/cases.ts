// Parts that the cases of queues share.
import { execFileSync } from "node:child_process";
import type { Lab, Team } from "../../lab.js";
import { atLeast, type Case, type Check, type Entry, type Measurement, type Prepare } from "../../suite.js";
import { implementations, type QueueSetup } from "./implementations.js";

export const withDelays = ["kit", "bullmq", "bullmq defaults", "bee-queue", "bee-queue defaults", "groupmq", "classic"];
export const everybody = [...withDelays, "floor"];

/** Ratios against bullmq and bee-queue, with further checks. */
export const goal = (bullmq: number, bee?: number, ...more: readonly Check[]): Check[] => [
  ...atLeast({ bullmq, ...(bee !== undefined && { "bee-queue": bee }) }),
  ...more,
];

export type Row = readonly [name: string, unit: string, about: string, goal?: readonly Check[]];
export const jobsASecond = "jobs/s";

export interface CaseSettings {
  readonly ids?: readonly string[];
  readonly setup?: QueueSetup;
  readonly rounds?: number;
  readonly processes?: number;
  readonly isOneCore?: boolean;
  readonly isFinal?: boolean;
}

/**
 * Every case pins its processes. Round trips between processes on one core are eight times as fast as on two, and
 * unpinned processes move between both placements.
 */
export const pinned = (rows: readonly Row[], { ids = everybody, setup = {}, isOneCore, ...rest }: CaseSettings) => {
  const placement = isOneCore ? "server and clients on one core" : "server and clients on a core each";
  const pin: Prepare = async (team, lab) => {
    execFileSync("taskset", ["-acp", "0", String(lab.node.pid)]);
    await team.all("pin", { core: isOneCore ? 0 : 1 });
  };
  const entries = rows.map(([name, unit, about, checks]): Entry => ({
    name,
    unit,
    about: `${about}; ${placement}`,
    goal: checks,
  }));
  return { ...rest, ...implementations.pick(ids, setup), entries, prepare: pin };
};

export type Measure = (team: Team, lab: Lab, scale: number) => Promise<Measurement>;
export const caseOf = (rows: readonly Row[], settings: CaseSettings, measure: Measure): Case => ({
  ...pinned(rows, settings),
  measure,
});
