import groupsSource from "../scripts/groups.lua";
import { scriptsWith } from "../scripts/index.js";

/** The scripts for queues with groups. Loaded when a queue has its first one. */
export const grouped: ReturnType<typeof scriptsWith> = scriptsWith(groupsSource);
