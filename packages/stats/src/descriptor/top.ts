import type { CliCommand, Facts } from "@kit/core/toolkit";
import type { FrequentMessage, Level } from "../index.js";
import { assertFew, spanOption, spanText, timeText } from "./spans.js";
import { withStats } from "./with-stats.js";

/** Printed by `kit stats top LOG --json`. */
interface TopReport {
  readonly log: string;
  readonly sinceMs: number;
  readonly messages: readonly FrequentMessage[];
}

const hourMs = 3_600_000;

/** One number if it is exact, otherwise its lower and upper bounds. */
const countText = ({ count, error }: FrequentMessage): string =>
  error === 0 ? String(count) : `${String(count - error)} to ${String(count)}`;

const rowOf = (message: FrequentMessage): readonly string[] => [
  countText(message),
  message.level,
  timeText(message.lastAt),
  message.sample,
];

export const topCommand: CliCommand = {
  path: "stats top",
  about: "show the most frequent messages of a log",
  args: [{ name: "log", about: "name of the log" }],
  options: [
    { name: "since", takes: "text", about: "how far back, in whole windows, such as 1h or 2d (default: 1h)" },
    { name: "level", takes: "text", about: "only this level: trace, debug, info, warn, error or fatal" },
    { name: "limit", takes: "integer", about: "number of messages to show (default: 20)" },
    { name: "window", takes: "text", about: "the log's window width, if it is not 1h" },
    { name: "distinct", takes: "integer", about: "the log's maxDistinct, if it is not 1000" },
  ],
  run: async (call, name: string) => {
    const sinceMs = spanOption(call, "since") ?? hourMs;
    const stepMs = spanOption(call, "window") ?? hourMs;
    assertFew(sinceMs, stepMs, "window");
    const window = { stepMs, keepMs: Math.max(sinceMs, stepMs) };
    // `frequent()` rejects an unknown level.
    const level = call.text("level") as Level | undefined;
    const messages = await withStats(call, (stats) =>
      stats
        .messages(name, { window, maxDistinct: call.integer("distinct") })
        .frequent({ lastMs: sinceMs, level, limit: call.integer("limit") }),
    );
    const data: TopReport = { log: name, sinceMs, messages };
    const facts: Facts = [
      ["log", name],
      ["since", spanText(sinceMs)],
      ...(messages.length === 0 ? ([["messages", "none"]] as const) : []),
    ];
    const table = { columns: ["count", "level", "last", "message"], rows: messages.map(rowOf) };
    await call.output.report({ data, facts, table: messages.length === 0 ? undefined : table });
  },
};
