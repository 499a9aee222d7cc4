import { defineScript } from "@kit/core";
import { groupKeys } from "../job/keys.js";
import type { AddReply } from "../store/scripts/added.js";
import entriesSource from "../store/scripts/entries.lua";
import eventsSource from "../store/scripts/events.lua";
import groupsSource from "../store/scripts/groups.lua";
import readySource from "../store/scripts/ready.lua";
import branchesSource from "../store/scripts/branches.lua";
import stageSource from "./stageFlow.lua";
import startSource from "./startFlow.lua";

/** Keeps a slice of a flow, see `stageFlow.lua`. */
export const stageFlow = defineScript({
  name: "queue.stageFlow",
  source: stageSource,
  keys: ["jobs", "staged"],
  args: ["token", "number", "root", "slice"],
  idempotent: true,
  reply: (raw): { readonly others: readonly string[]; readonly isTaken: boolean } => {
    const [others = "", isTaken] = (raw as unknown[]).map(String);
    return { others: others === "" ? [] : others.split(" "), isTaken: isTaken === "1" };
  },
});

/** The result of moving a slice. */
export interface StartReply extends AddReply {
  /** The number of the next slice. -1: the server has no further slice. */
  readonly next: number;
  /** A job has the root's id: nothing was added. */
  readonly isTaken: boolean;
}

/** Moves a slice of a flow into the queue, see `startFlow.lua`. */
export const startFlow = defineScript({
  name: "queue.startFlow",
  source: [entriesSource, readySource, groupsSource, eventsSource, branchesSource, startSource],
  keys: ["jobs", "waiting", "prioritised", "delayed", "wake", "limits", "events", "families", ...groupKeys, "staged"],
  args: ["token", "number", "total", "root"],
  idempotent: true,
  reply: (raw): StartReply => {
    const [next, isTaken] = (raw as unknown[]).map(Number);
    return { now: 0, answers: [], next: next ?? -1, isTaken: isTaken === 1 };
  },
});
