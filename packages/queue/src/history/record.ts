import { encodePayload, readPayload } from "../job/payload.js";
import type { Ending } from "../work/endings.js";
import { takeIdWidth } from "../job/take-id.js";

/**
 * The record of a job that is done or has expired. The first line has the take id, `completed` or `expired`, the kind of its result, and
 * the time of the take. Then follow its header, and attempts, crashes and snoozes as in `failures`, each in a line. The result comes last.
 *
 * Kinds of results: `json`, `bytes`, `none`: not kept.
 */
export const recordOf = ({ job, isExpired, result }: Ending, maxResultBytes: number): Buffer => {
  const payload = isExpired || maxResultBytes === 0 ? undefined : encoded(job.name, result, maxResultBytes);
  const kind = payload === undefined ? "none" : typeof payload === "string" ? "json" : "bytes";
  const facts = `${job.member.slice(0, takeIdWidth)} ${isExpired ? "expired" : "completed"} ${kind} ${String(job.takenAt)}\n`;
  const failures = `${String(job.failures)}\t${String(job.crashes)}\t\t${String(job.snoozes)}\n`;
  const header = job.blob.subarray(0, job.start);
  return Buffer.concat([Buffer.from(facts), header, Buffer.from(failures), Buffer.from(payload ?? "")]);
};

/** Undefined if the result is too large, or cannot be written. */
const encoded = (name: string, result: unknown, maxBytes: number): string | Buffer | undefined => {
  try {
    return encodePayload(name, result, maxBytes, "result");
  } catch {
    return undefined;
  }
};

/** A record, parsed. */
export interface ParsedRecord {
  readonly outcome: "completed" | "expired";
  /** When its worker took it, in epoch ms of the server's clock. */
  readonly takenAt: number;
  /** Its header line, with the line feed. */
  readonly header: Buffer;
  readonly failures: string;
  readonly hasResult: boolean;
  readonly result: unknown;
  readonly bytes: number;
}

/** Parses a record, with or without its result. */
export const parseRecord = (record: Buffer): ParsedRecord => {
  const first = record.indexOf(10);
  const second = record.indexOf(10, first + 1);
  const third = record.indexOf(10, second + 1);
  const [, outcome, kind, takenAt] = record.toString("latin1", 0, first).split(" ");
  const payload = record.subarray(third + 1);
  return {
    outcome: outcome === "expired" ? "expired" : "completed",
    takenAt: Number(takenAt),
    header: record.subarray(first + 1, second + 1),
    failures: record.toString("latin1", second + 1, third),
    hasResult: kind !== "none",
    get result() {
      return kind === "bytes" ? payload : kind === "json" ? readPayload(payload.toString()) : undefined;
    },
    bytes: payload.length,
  };
};
