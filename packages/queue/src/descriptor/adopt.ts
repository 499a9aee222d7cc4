import type { CliCommand } from "@kit/core/toolkit";

/** How many of the jobs that stay are shown. */
const shownRefused = 20;

export const adoptCommand: CliCommand = {
  path: "queue adopt",
  about: "moves the jobs of a BullMQ queue into a queue; a dry run unless --run is given",
  args: [
    { name: "from", about: "name of the BullMQ queue" },
    { name: "queue", about: "name of the queue that gets its jobs" },
  ],
  options: [
    { name: "run", about: "does it; without it only says what would be done" },
    { name: "bull-prefix", takes: "text", about: "prefix of BullMQ's keys (bull)" },
    { name: "timezone", takes: "text", about: "time zone of job schedulers that have a pattern without one" },
  ],
  run: async ({ redis, prefix, isSet, text, signal, output }, from: string, queue: string) => {
    const parts = ["meta", "id"].map((part) => `${text("bull-prefix") ?? "bull"}:${from}:${part}`);
    const exist = await Promise.all(parts.map((key) => redis.call("EXISTS", key)));
    if (!exist.includes(1))
      return await output.report({
        data: { from, queue },
        facts: [
          ["BullMQ queue", from],
          ["state", `unknown: there is neither ${parts.join(" nor ")}`],
        ],
        isUnknown: true,
      });
    const { adoptBullQueue } = await import("../adopt/index.js");
    const report = await adoptBullQueue(
      redis,
      { from, bullPrefix: text("bull-prefix") },
      { queue, prefix },
      { run: isSet("run"), timezone: text("timezone"), signal },
    );
    const { isDryRun, isPaused, moved, left, refused, unsure, ownStrategies } = report;
    const verb = isDryRun ? "would be moved" : "moved";
    const { waiting, prioritised, delayed, schedules } = moved;
    const rows = refused.slice(0, shownRefused).map(({ kind, id, reason }) => [kind, id, reason]);
    await output.report({
      data: { from, queue, ...report },
      facts: [
        [
          verb,
          `${String(waiting + prioritised)} ready, ${String(delayed)} delayed, ${String(schedules)} job schedulers`,
        ],
        [
          "left at BullMQ",
          `${String(left.active)} active, ${String(left.failed)} failed, ${String(left.waitingChildren)} parents`,
        ],
        ["refused", refused.length === 0 ? "none" : `${String(refused.length)}, the first ones below`],
        ...(unsure.length === 0 ? [] : [["unsure", `${String(unsure.length)}: ${unsure.join(" ")}`] as const]),
        ...(ownStrategies === 0
          ? []
          : [["own back-off", `${String(ownStrategies)}: give work() a backoff function`] as const]),
        ...(isPaused ? [["paused", "the BullMQ queue is: pause this one, too"] as const] : []),
        ...(isDryRun ? [["to do it", "the same command with --run"] as const] : []),
      ],
      hasProblem: refused.length > 0,
      table: rows.length === 0 ? undefined : { columns: ["kind", "id", "reason"], rows },
    });
  },
};
