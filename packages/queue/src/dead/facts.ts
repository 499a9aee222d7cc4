import { parseRecord, type StoredError } from "../job/failure.js";
import { expiresAt } from "../job/expiry.js";
import { decodePayload, parseBlob } from "../job/payload.js";

/** The stored facts of a job, apart from its data. */
export interface StoredFacts {
  readonly name: string;
  readonly priority: number;
  /** The group of the job. Undefined if it has none. */
  readonly group: string | undefined;
  readonly maxAttempts: number;
  /** How often it ran and failed. */
  readonly attempts: number;
  /** How often its worker died, or did not renew its lease, while it had the job. */
  readonly crashes: number;
  /** How often a handler snoozed it; see `SnoozeError`. */
  readonly snoozes: number;
  /** How often workers that cannot run it have passed it on since it last ran. */
  readonly passes: number;
  /** The key of a job that was added with `unique`. */
  readonly uniqueKey: string | undefined;
  /** The error of the last attempt. Undefined if no attempt failed and only workers crashed. */
  readonly error: StoredError | undefined;
  /** When it was added, in epoch ms: the producer's estimate of the server's time. */
  readonly addedAt: number;
}

/** A job that does not run again unless it is redriven. */
export interface DeadLetter extends StoredFacts {
  readonly id: string;
  /** The data as it was added. Undefined if it cannot be read. */
  readonly data: unknown;
  /** In epoch ms of the server's clock. */
  readonly diedAt: number;
}

/** Reads the facts of a stored job, even if the job is damaged. */
export const factsOf = (blob: Buffer, record: string): StoredFacts => {
  const known = parseRecord(record);
  try {
    const { addedAt, header } = parseBlob(blob);
    const { name, priority, group, maxAttempts, uniqueKey } = header;
    return { ...known, name, priority, group, maxAttempts, addedAt, uniqueKey };
  } catch {
    return { ...known, name: "", priority: 0, group: undefined, maxAttempts: 1, addedAt: 0, uniqueKey: undefined };
  }
};

/** When a stored job expires. Null if it does not expire, or cannot be read. */
export const expiryOf = (blob: Buffer): number | null => {
  try {
    const { addedAt, header } = parseBlob(blob);
    return expiresAt(addedAt, header) ?? null;
  } catch {
    return null;
  }
};

/** The data of a stored job. Undefined if it cannot be read. */
export const dataOf = (blob: Buffer): unknown => {
  try {
    return decodePayload(blob, parseBlob(blob));
  } catch {
    return undefined;
  }
};
