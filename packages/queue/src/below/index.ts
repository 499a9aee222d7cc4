import type { ClientContext } from "@kit/core/toolkit";
import type { QueueKeys } from "../job/keys.js";
import { children, type StoredChildren } from "./scripts.js";

/** The id in a child's record, if the child is open; see `children.lua`. */
const openIn = (record: Buffer): readonly string[] => {
  const end = record.indexOf(9);
  const outcome = record.subarray(record.indexOf(9, end + 1) + 1);
  return outcome.length === 4 && outcome.toString() === "open" ? [record.toString("utf8", 0, end)] : [];
};

/** The ids of the open jobs below a job in its flow, each after one of its parents. */
export const openBelow = async (context: ClientContext, keys: QueueKeys, id: string): Promise<readonly string[]> => {
  const ids = new Set([id]);
  // The loop also visits the ids that it adds.
  for (const parent of ids)
    for (let start: number | undefined = 0; start !== undefined;) {
      const page: StoredChildren = await children.run(context, keys, { id: parent, start, count: 100 });
      for (const open of page.records.flatMap(openIn)) ids.add(open);
      start = page.next;
    }
  ids.delete(id);
  return [...ids];
};
