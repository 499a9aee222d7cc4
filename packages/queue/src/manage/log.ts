import type { RedisLike } from "@kit/core";
import { dated, integer, resolve } from "@kit/core/toolkit";
import { checkedAddress, jobId } from "../store/address.js";
import { notesKey, type QueueAddress } from "../job/keys.js";
import { readNotes } from "../notes/scripts/readers.js";

/** A page of a job's log. */
export interface LogPage {
  readonly lines: readonly LogLine[];
  /**
   * How many lines are kept, and how many earlier lines the server dropped. If a handler writes more than 1,000 lines during one call, only
   * the last 1,000 are sent. The others have no number, and don't count here.
   */
  readonly kept: number;
  readonly dropped: number;
}

/** A line that a handler has written. */
export interface LogLine {
  /** Counted from 1, through all attempts of the job. */
  readonly number: number;
  /** When the server received it, as ISO text. */
  readonly at: string;
  readonly text: string;
}

const logRules = { after: integer(0, undefined), count: integer(1, 1_000, 100) };

/**
 * Reads lines of a job's log, oldest first. Reads the last lines by default. With `after` it reads the lines after that number, so a front
 * end can follow the log. If several jobs had this id, it reads the log of the job that wrote last.
 *
 * @throws {KitUnavailableError} no server answered in time.
 * @throws {TypeError | RangeError} an argument is invalid.
 *
 * @example
 * const { lines } = await readLog(redis, { queue: "videos" }, id, { after: last });
 */
export const readLog = async (
  redis: RedisLike,
  address: QueueAddress,
  id: string,
  options: {
    /** @default the last lines */
    readonly after?: number | undefined;
    /**
     * How many lines to read, up to 1,000.
     *
     * @default 100
     */
    readonly count?: number | undefined;
  } = {},
): Promise<LogPage> => {
  const { head } = checkedAddress(address);
  const { after, count } = resolve("options", options, logRules);
  const notes = notesKey(head, jobId(id));
  const args = { of: "", after: after ?? 0, count: after === undefined ? -count : count };
  const { lines, kept, dropped } = await readNotes.run(redis, { notes }, args);
  return {
    lines: lines.map(({ number, at, text }) => ({ number, at: dated(at) ?? "", text })),
    ...{ kept, dropped },
  };
};
