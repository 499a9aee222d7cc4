import type { CliCommand } from "@kit/core/toolkit";

/** How many of the jobs that stay are shown. */
const shownRefused = 20;

export const adoptCommand: CliCommand = {
  path: "queue adopt",
  about: "move the jobs of a BullMQ queue to a kit queue (dry run unless you pass --run)",
  args: [
    { name: "from", about: "name of the BullMQ queue" },
    { name: "queue", about: "name of the kit queue" },
  ],
  options: [
    { name: "run", about: "apply the change; without it, only show what would change" },
    { name: "bull-prefix", takes: "text", about: "prefix of BullMQ's keys (default: bull)" },
    { name: "timezone", takes: "text", about: "time zone for job schedulers with a pattern but no time zone" },
  ],
  run: async ({ redis, prefix, isSet, text, signal, output }, from: string, queue: string) => {
    const parts = ["meta", "id"].map((part) => `${text("bull-prefix") ?? "bull"}:${from}:${part}`);
    const exist = await Promise.all(parts.map((key) => redis.call("EXISTS", key)));
    if (!exist.includes(1))
      return await output.report({
        data: { from, queue },
        facts: [
          ["BullMQ queue", from],
          ["state", `unknown: neither ${parts.join(" nor ")} exists`],
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
          "left in BullMQ",
          `${String(left.active)} active, ${String(left.failed)} failed, ${String(left.waitingChildren)} parents, ${String(left.children)} children`,
        ],
        [
          "refused",
          refused.length === 0 ? "none" : `${String(refused.length)}, listed below (first ${String(shownRefused)})`,
        ],
        ...(unsure.length === 0 ? [] : [["unsure", `${String(unsure.length)}: ${unsure.join(" ")}`] as const]),
        ...(ownStrategies === 0
          ? []
          : [["custom backoff", `${String(ownStrategies)}: pass a backoff function to work()`] as const]),
        ...(isPaused ? [["paused", "the BullMQ queue is paused: pause this queue as well"] as const] : []),
        ...(isDryRun ? [["next step", "run the same command with --run"] as const] : []),
      ],
      hasProblem: refused.length > 0,
      table: rows.length === 0 ? undefined : { columns: ["kind", "id", "reason"], rows },
    });
  },
};
