import { defineScript } from "@kit/core";
import entriesSource from "../../store/scripts/entries.lua";
import forgetSource from "./forget.lua";
import keepSource from "./keep.lua";

/** Records jobs that are about to end; see `keep.lua`. */
export const keep = defineScript({
  name: "queue.keep",
  source: [entriesSource, keepSource],
  keys: ["leases", "kept", "records"],
  args: ["maxCount", "maxAgeMs", "maxBytes", "...ended[member record]"],
  idempotent: true,
  reply: Number,
});

/** Deletes records of jobs that the server refused to end. */
export const forget = defineScript({
  name: "queue.forget",
  source: [entriesSource, forgetSource],
  keys: ["kept", "records"],
  args: ["members"],
  idempotent: true,
  reply: Number,
});
