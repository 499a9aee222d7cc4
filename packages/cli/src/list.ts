import { type Connection, KitError } from "@kit/core";
import { type InspectCall, type Listed, nameIn, type Report } from "@kit/core/toolkit";
import { connectionsOf } from "./server.js";

/** Keys per step, steps on each node, and names: what a server answers in a few seconds at most. */
const batch = 1_000;
const maxSteps = 1_000;
const maxNames = 100;

interface Found {
  readonly names: readonly string[];
  /** Whether all keys were looked at. */
  readonly isWhole: boolean;
}

const find = async (redis: Connection, packageName: string, prefix: string, part: string): Promise<Found> => {
  const names = new Set<string>();
  let isWhole = true;
  const pattern = `${prefix.replace(/[\\*?[\]]/g, "\\$&")}:${packageName}:{*}:${part}`;
  for (const node of connectionsOf(redis)) {
    let cursor: string | undefined = "0";
    for (let step = 0; step < maxSteps && cursor !== undefined && names.size < maxNames; step++) {
      const [next, keys] = (await node.call("SCAN", cursor, "MATCH", pattern, "COUNT", batch)) as [string, string[]];
      for (const key of keys) names.add(nameIn(key) ?? key);
      cursor = next === "0" ? undefined : next;
    }
    isWhole &&= cursor === undefined;
  }
  return { names: [...names].slice(0, maxNames).toSorted(), isWhole: isWhole && names.size <= maxNames };
};

/** A damaged entry hides nothing else. */
const damage = (error: unknown): Report => {
  if (!KitError.is(error) || (error.code !== "KIT_KEY_TYPE" && error.code !== "KIT_LAYOUT")) throw error;
  return { data: { error: error.code }, facts: [["damaged", error.message]] };
};

/** A row for each thing that is there: what its inspector says, in the columns that were asked for. */
export const listOf = async (
  call: InspectCall,
  packageName: string,
  { things, part, columns }: Listed,
  look: (name: string) => Promise<Report>,
): Promise<Report> => {
  const { names, isWhole } = await find(call.redis, packageName, call.prefix, part);
  const rows: string[][] = [];
  const data: object[] = [];
  for (const name of names) {
    const report = await look(name).catch(damage);
    data.push("error" in report.data ? { name, ...report.data } : report.data);
    const textOf = (column: string): string =>
      (report.facts ?? []).flatMap(([fact, text]) => (fact === column ? [text] : [])).join("; ");
    // The last column has the most room.
    const last = columns.length - 1;
    rows.push([name, ...columns.map((column, at) => textOf(column) || (at === last ? textOf("damaged") : ""))]);
  }
  const count = `${String(names.length)}${isWhole ? "" : ", and perhaps more: the search was cut short"}`;
  return {
    data: { [things]: data, isWhole },
    facts: [[things, names.length === 0 && isWhole ? "none" : count]],
    table: names.length === 0 ? undefined : { columns: ["name", ...columns], rows },
  };
};
