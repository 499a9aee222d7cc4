// Schedules of one queue: every process runs them, and one changes one of them again and again.
import { pause } from "@kit/core/toolkit";
import { isLeaving, noteBackground, pick, repeating, settings, subject } from "../../lab/contender.mjs";
import { ask } from "./manage.mjs";

const { deadlineMs, leaseMs } = settings;

/** A job of a schedule has no key: its id takes the place. */
const data = { fails: 0, ms: 1, snoozes: [], isDeaf: false };

export const schedulesOf = (client, queue) => {
  const schedules = subject.createSchedules(client, queue, { deadlineMs, lookEveryMs: leaseMs });
  schedules.on("error", noteBackground);
  const put = (schedule, everyMs) =>
    ask("schedule", queue, { schedule, everyMs }, async () => {
      const { outcome } = await schedules.upsert(schedule, { name: "job", data, everyMs, missed: "all" });
      return outcome;
    });
  schedules.run();
  return {
    /** Loops of this process. */
    loops: [
      async () => {
        while (!(await put("steady", 60)) && !isLeaving()) await pause(20);
      },
      ...(settings.isManaging ? [repeating((random) => put("moving", pick(random, [50, 80])), leaseMs * 8)] : []),
    ],
    close: (options) => schedules.close(options),
  };
};
