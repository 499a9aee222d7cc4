import { defineScript, type Script } from "@kit/core";
import entriesSource from "../scripts/entries.lua";
import prioritiseSource from "../scripts/prioritise.lua";
import readySource from "../scripts/ready.lua";

/** Gives a ready or delayed job another priority; replies with whether there is such a job. */
export const prioritise: Script<
  readonly ["jobs", "waiting", "prioritised", "delayed", "wake"],
  readonly ["id", "priority"],
  boolean
> = defineScript({
  name: "queue.prioritise",
  source: [entriesSource, readySource, prioritiseSource],
  keys: ["jobs", "waiting", "prioritised", "delayed", "wake"],
  args: ["id", "priority"],
  idempotent: true,
  reply: (raw) => Number(raw) === 1,
});
