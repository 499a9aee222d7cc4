import { defineScript } from "@kit/core";
import entriesSource from "../store/scripts/entries.lua";
import childrenSource from "./children.lua";

/** A page of the children of a job, as they are stored. */
export interface StoredChildren {
  readonly open: number;
  /** How many children to skip for the next page. Undefined if this is the last page. */
  readonly next: number | undefined;
  /** For each child its id, name and outcome between tabs. */
  readonly records: readonly Buffer[];
}

export const children = defineScript({
  name: "queue.children",
  source: [entriesSource, childrenSource],
  keys: ["jobs", "families"],
  args: ["id", "start", "count"],
  readonly: true,
  bytes: true,
  reply: (raw): StoredChildren => {
    const [open, next, ...records] = raw as Buffer[];
    return { open: Number(String(open)), next: String(next) === "-1" ? undefined : Number(String(next)), records };
  },
});
