import type { CliCommand } from "@kit/core/toolkit";
import { setLimits } from "../manage/index.js";
import { isQueue, queueInspector, unknownQueue } from "./inspect.js";

/** Zero removes a limit. */
const orNull = <Value>(count: number | undefined, value: Value): Value | null | undefined =>
  count === undefined ? undefined : count === 0 ? null : value;

export const limitCommand: CliCommand = {
  path: "queue limit",
  about: "set or remove limits of a queue, or of its jobs with one name; without an option, show them",
  args: [{ name: "queue", about: "name of the queue", listedIn: "queues" }],
  buttons: [{ thing: "queue", text: "Set limits" }],
  options: [
    { name: "concurrency", takes: "integer", about: "maximum number of active jobs; 0 removes the limit" },
    { name: "name", takes: "text", about: "apply --concurrency to jobs with this name" },
    { name: "rate", takes: "integer", about: "maximum number of starts in a period; 0 removes the limit" },
    { name: "per-ms", takes: "integer", about: "period of the rate in milliseconds (default: 1000)" },
    { name: "burst", takes: "integer", about: "starts that can come together (default: a tenth of the rate)" },
  ],
  run: async (call, queue: string) => {
    const { redis, prefix, integer, text, output } = call;
    if (!(await isQueue(call, queue))) return await output.report(unknownQueue(queue));
    const [count, starts, name] = [integer("concurrency"), integer("rate"), text("name")];
    const concurrency = orNull(count, count);
    const rate = orNull(starts, { count: starts ?? 0, perMs: integer("per-ms") ?? 1_000, burst: integer("burst") });
    const limits = name === undefined ? { concurrency } : { names: { [name]: { concurrency } } };
    await setLimits(redis, { queue, prefix }, { ...limits, rate });
    const { data, facts = [] } = await queueInspector.look(call, queue);
    const { concurrency: most, rate: stored, names } = data as Readonly<Record<string, unknown>>;
    const shown = facts.filter(([fact]) => fact === "limits" || fact.startsWith("name "));
    await output.report({
      data: { queue, concurrency: most, rate: stored, names },
      facts: shown.length === 0 ? [["limits", "none"]] : shown,
    });
    return undefined;
  },
};
