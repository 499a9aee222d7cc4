import { defineScript } from "@kit/core";
import { groupKeys } from "../../job/keys.js";
import entriesSource from "../../store/scripts/entries.lua";
import eventsSource from "../../store/scripts/events.lua";
import readySource from "../../store/scripts/ready.lua";
import groupsSource from "../../store/scripts/groups.lua";
import { addReplyOf } from "../../store/scripts/added.js";
import addFlowSource from "./addFlow.lua";

/** Stores the jobs of flows, see `addFlow.lua`. The answer for a flow that was not added has the id that a job has. */
export const addFlow = defineScript({
  name: "queue.addFlow",
  source: [entriesSource, readySource, groupsSource, eventsSource, addFlowSource],
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
