import { defineScript } from "@kit/core";
import { groupKeys } from "../job/keys.js";
import deadSource from "../store/scripts/dead.lua";
import entriesSource from "../store/scripts/entries.lua";
import eventsSource from "../store/scripts/events.lua";
import flowSource from "../store/scripts/flow.lua";
import groupsSource from "../store/scripts/groups.lua";
import lettersSource from "../store/scripts/letters.lua";
import readySource from "../store/scripts/ready.lua";
import redriveSource from "../store/scripts/redrive.lua";
import successorSource from "../store/scripts/successor.lua";

/** The maximum number of dead letters that one call of `redrive` moves. */
export const maxRedriven = 100;

/** A stored dead letter. */
export interface StoredLetter {
  readonly id: string;
  readonly diedAt: number;
  readonly blob: Buffer;
  readonly record: string;
}

/** Reads dead letters, see `letters.lua`. The blob of a letter of another name is empty. */
export const letters = defineScript({
  name: "queue.letters",
  source: lettersSource,
  keys: ["jobs", "failures", "dead"],
  args: ["latest", "start", "name", "count"],
  readonly: true,
  bytes: true,
  reply: (raw): readonly StoredLetter[] => {
    const all = raw as Buffer[];
    const found: StoredLetter[] = [];
    while (all.length > 0) {
      const [id, diedAt, blob, record] = all.splice(0, 4) as [Buffer, Buffer, Buffer, Buffer];
      found.push({ id: String(id), diedAt: Number(diedAt), blob, record: String(record) });
    }
    return found;
  },
});

/** Moves dead letters back to the queue, or drops them. Replies with their number, and with the start time of the operation. */
export const redrive = defineScript({
  name: "queue.redrive",
  source: [
    ...[entriesSource, readySource, groupsSource, deadSource, successorSource, eventsSource, flowSource],
    redriveSource,
  ],
  keys: [
    "jobs",
    "waiting",
    "prioritised",
    "delayed",
    "wake",
    "failures",
    "dead",
    "meta",
    "limits",
    "events",
    "families",
    ...groupKeys,
  ],
  args: ["verb", "ids", "begun", "spreadMs"],
  idempotent: true,
  reply: (raw): { readonly moved: number; readonly begun: string } => {
    const [moved, begun] = raw as unknown[];
    return { moved: Number(moved), begun: String(begun) };
  },
});
