import { encodePayload, headOf } from "../job/payload.js";
import type { QueueSettings } from "../store/options.js";
import { ScheduleError } from "./errors.js";
import type { ResolvedSchedule } from "./options.js";
import { type ScheduleRecord, timingText } from "./record.js";
import { type RunAfter, runsOf, type Timing } from "./times.js";

/** A schedule in its stored form. */
export interface Wanted extends Pick<ScheduleRecord, "version" | "timing"> {
  readonly count: number | undefined;
  readonly startAt: number | undefined;
  readonly endAt: number | undefined;
  readonly template: Buffer;
  readonly after: RunAfter;
}

const isMissing = (error: unknown): boolean => {
  const { code } = error as { readonly code?: unknown };
  return code === "ERR_MODULE_NOT_FOUND" || code === "MODULE_NOT_FOUND";
};

/** `isNew`: the caller has just passed the expression, and gets a RangeError. */
export const scheduleRuns = async (id: string, timing: Timing, isNew = false): Promise<RunAfter> => {
  try {
    const after = await runsOf(timing);
    after(0);
    return after;
  } catch (error) {
    if (isMissing(error)) throw new ScheduleError(id, "has a cron expression. Install the package croner", error);
    if (!isNew) throw new ScheduleError(id, "has runs that this process cannot compute. Update croner", error);
    const reason = error instanceof Error ? error.message : String(error);
    throw new RangeError(`Expected \`cron\` and \`timezone\` to be valid for croner: ${reason}`, { cause: error });
  }
};

/**
 * Checks a schedule as far as possible without the server, and converts it to its stored form.
 *
 * @throws {JobPayloadError | ScheduleError | TypeError | RangeError} as `upsert`.
 */
export const wantedOf = async (id: string, given: ResolvedSchedule, settings: QueueSettings): Promise<Wanted> => {
  const { name, data, options, version, everyMs, cron, timezone, startAt, endAt } = given;
  if ((everyMs === undefined) === (cron === undefined)) throw new TypeError("Expected either `everyMs` or `cron`");
  if (timezone !== undefined && cron === undefined) throw new TypeError("Expected `timezone` only with `cron`");
  if (startAt !== undefined && endAt !== undefined && startAt > endAt)
    throw new RangeError("Expected `startAt` to be at most `endAt`");
  const timing = { ...given, timezone: cron === undefined ? undefined : (timezone ?? "UTC") };
  const after = await scheduleRuns(id, timing, true);
  if (after(0) === undefined) throw new RangeError("Expected a schedule with at least one run in the future");
  const payload = encodePayload(name, data, settings.maxPayloadBytes);
  const { maxAttempts, backoff, timeoutMs, expiresMs } = settings;
  const afterMs = options?.expiresMs ?? expiresMs;
  const policy = {
    maxAttempts: options?.maxAttempts ?? maxAttempts,
    backoff: options?.backoff ?? backoff,
    timeoutMs: options?.timeoutMs ?? timeoutMs,
    expires: afterMs === undefined ? undefined : { afterMs, from: 0 },
  };
  const head = headOf(name, policy, options?.priority ?? 0, typeof payload !== "string");
  const template = Buffer.concat([Buffer.from(`${head}\n`), Buffer.from(payload)]);
  return { version, count: given.count, startAt, endAt, timing: timingText(timing), template, after };
};
