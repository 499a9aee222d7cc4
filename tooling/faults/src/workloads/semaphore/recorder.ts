import type { Mutations } from "../../lab/control.js";
import { recordersIn } from "../../lab/recorder.js";

/**
 * The scripts that record their writes, each with the name in its records. The library `grant` runs in every script; it
 * records as `other` where the script itself does not record.
 */
const recorded: Readonly<Record<string, string>> = {
  acquire: "acquire",
  release: "release",
  renew: "renew",
  grant: "other",
};

export const recorders = (): Mutations => recordersIn("semaphore/recorder.lua", recorded);
