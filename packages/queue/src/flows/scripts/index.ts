import { defineScript } from "@kit/core";
import { groupKeys } from "../../job/keys.js";
import entriesSource from "../../store/scripts/entries.lua";
import eventsSource from "../../store/scripts/events.lua";
import readySource from "../../store/scripts/ready.lua";
import groupsSource from "../../store/scripts/groups.lua";
import revokedSource from "../../store/scripts/revoked.lua";
import { addReplyOf } from "../../store/scripts/added.js";
import { lostOf, type LostLeases } from "../../store/scripts/lost.js";
import addFlowSource from "./addFlow.lua";
import branchesSource from "../../store/scripts/branches.lua";
import parkSource from "./park.lua";

/** Stores the jobs of flows, see `addFlow.lua`. The answer for a flow that was not added has the id that a job has. */
export const addFlow = defineScript({
  name: "queue.addFlow",
  source: [entriesSource, readySource, groupsSource, eventsSource, branchesSource, addFlowSource],
  keys: [
    "jobs",
    "waiting",
    "prioritised",
    "delayed",
    "wake",
    "producers",
    "limits",
    "events",
    "families",
    ...groupKeys,
    "answered",
  ],
  args: ["producer", "sequence", "isNew", "plan", "...blobs"],
  idempotent: true,
  reply: addReplyOf,
});

/** What became of an active job that waits for children. */
export interface ParkReply extends LostLeases {
  /** The id of a child that another job has: nothing was added. */
  readonly taken: string | undefined;
}

/** Adds children to an active job, which then waits for them; see `park.lua`. */
export const park = defineScript({
  name: "queue.park",
  source: [entriesSource, readySource, groupsSource, revokedSource, eventsSource, branchesSource, parkSource],
  keys: [
    "jobs",
    "waiting",
    "prioritised",
    "delayed",
    "leases",
    "wake",
    "failures",
    "revoked",
    "limits",
    "events",
    "named",
    "families",
    ...groupKeys,
  ],
  args: ["member", "children", "plan", "...blobs"],
  idempotent: true,
  reply: (raw): ParkReply => {
    const [refused, taken] = (raw as unknown[]).map(String);
    return { ...lostOf(refused), taken: taken === "" ? undefined : taken };
  },
});
