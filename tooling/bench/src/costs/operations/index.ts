import type { CostedOperation, IdleObject, StoredObject } from "../operation.js";
import * as autocomplete from "./autocomplete.js";
import * as chat from "./chat.js";
import * as core from "./core.js";
import * as geoip from "./geoip.js";
import * as lock from "./lock.js";
import * as logship from "./logship.js";
import * as queue from "./queue.js";
import * as semaphore from "./semaphore.js";
import * as stats from "./stats.js";

const storing = [lock, semaphore, queue, chat, logship, stats, autocomplete, geoip];
const all = [...storing, core];

export const operations: readonly CostedOperation[] = all.flatMap((one) => one.operations);
export const stored: readonly StoredObject[] = storing.flatMap((one) => one.stored);
export const idle: readonly IdleObject[] = all.flatMap((one) => one.idle);
