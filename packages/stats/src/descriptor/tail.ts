import type { CliCommand } from "@kit/core/toolkit";
import type { Entry, Level } from "../index.js";
import { timeText } from "./spans.js";
import { withStats } from "./with-stats.js";

const textOf = ({ at, level, text, fields }: Entry): string => {
  const more = Object.keys(fields).length === 0 ? "" : ` ${JSON.stringify(fields)}`;
  return `${timeText(at)} ${level} ${text}${more}`;
};

export const tailCommand: CliCommand = {
  path: "stats tail",
  about: "print the messages of a log as they arrive",
  args: [{ name: "log", about: "name of the log" }],
  options: [
    { name: "last", takes: "integer", about: "number of existing messages to print first (default: 10)" },
    { name: "level", takes: "text", about: "lowest level: trace, debug, info, warn, error or fatal" },
  ],
  run: (call, name: string) =>
    withStats(call, async (stats) => {
      const { integer, text, output, signal } = call;
      // The tail retries several times a second; each error is printed only once.
      let trouble = "";
      stats.on("error", ({ message }) => {
        if (message === trouble) return;
        trouble = message;
        void output.note(message);
      });
      // `tail()` rejects an unknown level.
      const minLevel = text("level") as Level | undefined;
      for await (const entry of stats.messages(name).tail({ minLevel, last: integer("last") ?? 10, signal })) {
        trouble = "";
        await output.line(entry, textOf(entry));
      }
    }),
};
