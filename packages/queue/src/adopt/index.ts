export { adoptBullQueue } from "./adopt.js";
export { AdoptionError } from "./errors.js";

export type { AdoptReport, Refused } from "./adopt.js";
export type { AdoptOptions, BullAddress } from "./options.js";
export type { QueueAddress } from "../job/keys.js";
