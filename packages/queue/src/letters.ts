import { parseRecord, type StoredError } from "./failure.js";
import { decodePayload, parseBlob } from "./payload.js";
import type { StoredLetter } from "./scripts/index.js";

/** A job that will not run again by itself. */
export interface DeadLetter {
  readonly id: string;
  readonly name: string;
  /** As it was added; undefined if it cannot be read. */
  readonly data: unknown;
  readonly priority: number;
  /** How often it ran and failed. */
  readonly attempts: number;
  /** How often its worker died, or went unheard, while it had it. */
  readonly crashes: number;
  /** Of the last attempt; undefined: it never failed, its workers crashed. */
  readonly error: StoredError | undefined;
  readonly addedAt: number;
  /** Epoch ms of the server's clock. */
  readonly diedAt: number;
}

/** A letter as people see it; also one that is damaged. */
export const letterOf = ({ id, diedAt, blob, record }: StoredLetter): DeadLetter => {
  const known = { id, diedAt, ...parseRecord(record) };
  try {
    const stored = parseBlob(blob);
    const { name, priority } = stored.header;
    return { ...known, name, priority, addedAt: stored.addedAt, data: dataOf(blob, stored) };
  } catch {
    return { ...known, name: "", priority: 0, addedAt: 0, data: undefined };
  }
};

const dataOf = (blob: Buffer, stored: ReturnType<typeof parseBlob>): unknown => {
  try {
    return decodePayload(blob, stored);
  } catch {
    return undefined;
  }
};
