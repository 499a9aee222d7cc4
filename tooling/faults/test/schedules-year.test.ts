import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "@kit/core";
import { createSchedules, runOf } from "@kit/queue/schedules";
import { startRedis } from "@kit/testing";
import { describe, expect, it } from "vitest";
import { ControlFile, shims, type Shims } from "../src/lab/shims.js";

const hourMs = 3_600_000;
const stepMs = 27 * hourMs;
const built = shims();
const zones = Intl.supportedValuesOf("timeZone");
/** Times that the changes of most zones leave out, or repeat. */
const times = ["30 0", "30 1", "30 2", "30 3"];

const offsetIn = (timezone: string, at: number): string =>
  new Intl.DateTimeFormat("en", { timeZone: timezone, timeZoneName: "longOffset", year: "numeric" }).format(at);
/** Zones with summer time have schedules on the nights of most changes, from Saturday to Sunday; the others on the first of each month. */
const hasChanges = (timezone: string): boolean => {
  const offsets = Array.from({ length: 12 }, (_, month) => offsetIn(timezone, Date.UTC(2026, month, 15)));
  return new Set(offsets).size > 1;
};

// The clock is that of a real server: it is set by as much as an hour while two processes run the schedules of all time zones.
describe.runIf(typeof built !== "string")("A year of schedules", () => {
  it("has each run once, in every time zone, while the server's clock is set forwards and backwards", async () => {
    const folder = mkdtempSync(join(tmpdir(), "kit-year-"));
    const clock = new ControlFile(join(folder, "clock"));
    const env = { LD_PRELOAD: (built as Shims).clockJump, KIT_CLOCK_JUMP: clock.path };
    await using server = await startRedis({ env });
    const offset = (ms: number): void => clock.set(BigInt(Math.round(ms)) * 1_000_000n);
    const begin = Date.UTC(2026, 0, 1);
    const end = Date.UTC(2027, 0, 1);
    const setTo = (at: number): void => offset(at - Date.now());
    await using redis = await connect({ url: server.url, deadlineMs: 20_000 });
    await using first = createSchedules(redis, "year");
    await using second = createSchedules(redis, "year");
    const runs = new Map<string, number[]>();
    for (const schedules of [first, second])
      schedules.on("added", ({ jobs }) => {
        for (const job of jobs) {
          const { schedule, runAt } = runOf(job)!;
          runs.set(schedule, [...(runs.get(schedule) ?? []), runAt]);
        }
      });
    setTo(begin);
    const ids = Array.from({ length: 500 }, (_, n) => `${zones[n % zones.length]!} ${times[n % times.length]!}`);
    await Promise.all(
      [...new Set(ids)].map((id, n) => {
        const [timezone = "", ...time] = id.split(" ");
        const cron = `${time.join(" ")} ${hasChanges(timezone) ? "* * SUN" : "1 * *"}`;
        return first.upsert(id, { cron, timezone, endAt: end, name: "job", missed: n % 2 === 0 ? "all" : "last" });
      }),
    );
    // At every fifth step the clock is set an hour too far, and then back, and both processes look at the same time.
    for (let at = begin, step = 0; at <= end + stepMs; at += stepMs, step++) {
      if (step % 5 === 0) {
        setTo(at + hourMs);
        await Promise.all([first.runDue(), second.runDue()]);
      }
      setTo(at);
      await (step % 2 === 0 ? first : second).runDue();
    }
    for (const id of ids) {
      const [timezone = "", minute = "", hour = ""] = id.split(" ");
      const format = new Intl.DateTimeFormat("en-CA", {
        ...({ timeZone: timezone, hourCycle: "h23", year: "numeric", month: "2-digit", day: "2-digit" } as const),
        ...({ hour: "2-digit", minute: "2-digit", weekday: "short" } as const),
      });
      const parts = (at: number): Record<string, string> =>
        Object.fromEntries(format.formatToParts(at).map(({ type, value }) => [type, value]));
      const own = runs.get(id) ?? [];
      const local = own.map(parts);
      const days = local.map(({ year, month, day }) => Date.UTC(Number(year), Number(month) - 1, Number(day)));
      // Every day of the schedule, each once and in order.
      const isWeekly = hasChanges(timezone);
      const wanted = isWeekly
        ? days.map((_, index) => days[0]! + index * 7 * 24 * hourMs)
        : days.map((_, index) => Date.UTC(2026, new Date(days[0]!).getUTCMonth() + index, 1));
      expect([id, isWeekly ? local[0]!["weekday"] : local[0]!["day"], days]).toEqual([
        id,
        isWeekly ? "Sun" : "01",
        wanted,
      ]);
      expect([id, days.length]).toEqual([id, isWeekly ? 52 : 12]);
      for (const [index, one] of local.entries()) {
        if (Number(one["hour"]) === Number(hour) && one["minute"] === minute) continue;
        // The time did not exist on that day: a minute before, the clock showed an earlier one.
        const minutes = Number(hour) * 60 + Number(minute);
        const { hour: earlier, minute: before } = parts(own[index]! - 60_000);
        const shown = Number(one["hour"]) * 60 + Number(one["minute"]);
        const previous = (Number(earlier) * 60 + Number(before)) % (24 * 60);
        expect([id, minutes < shown, previous < minutes || previous > shown]).toEqual([id, true, true]);
      }
    }
    rmSync(folder, { recursive: true, force: true });
  });
});
