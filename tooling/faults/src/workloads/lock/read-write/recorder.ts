import type { Mutations } from "../../../lab/control.js";
import { recordersIn } from "../../../lab/recorder.js";

/**
 * The scripts that record their writes, each with the name in its records. The library `grant` runs in every script but
 * `renew`; it records as `other` where the script itself does not record.
 */
const recorded: Readonly<Record<string, string>> = {
  "read-write/acquire": "acquire",
  "read-write/release": "release",
  "read-write/renew": "renew",
  "read-write/grant": "other",
};

export const recorders = (): Mutations => recordersIn("lock/read-write/recorder.lua", recorded);
