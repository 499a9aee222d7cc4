import { defineScript } from "@kit/core";
import entriesSource from "../../store/scripts/entries.lua";
import strandedSource from "./stranded.lua";

/** A page of the parents that wait for children which no longer exist. */
export const stranded = defineScript({
  name: "queue.stranded",
  source: [entriesSource, strandedSource],
  keys: ["jobs", "delayed", "dead", "families", "staged"],
  args: ["cursor"],
  readonly: true,
  reply: (raw): { readonly cursor: string; readonly ids: readonly string[] } => {
    const [cursor = "0", ...ids] = (raw as unknown[]).map(String);
    return { cursor, ids };
  },
});
