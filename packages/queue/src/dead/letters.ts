import { parseRecord, type StoredError } from "../job/failure.js";
import { expiresAt } from "../job/expiry.js";
import { decodePayload, parseBlob } from "../job/payload.js";
import type { QueueCommands } from "../store/commands.js";
import { letters, maxRedriven, redrive, type StoredLetter } from "../store/scripts/index.js";

/** The stored facts of a job, apart from its data. */
export interface StoredFacts {
  readonly name: string;
  readonly priority: number;
  readonly maxAttempts: number;
  /** How often it ran and failed. */
  readonly attempts: number;
  /** How often its worker died, or did not renew its lease, while it had the job. */
  readonly crashes: number;
  /** How often a handler snoozed it; see `SnoozeError`. */
  readonly snoozes: number;
  /** The key of a job that was added with `unique`. */
  readonly uniqueKey: string | undefined;
  /** The error of the last attempt. Undefined if no attempt failed and only workers crashed. */
  readonly error: StoredError | undefined;
  /** In epoch ms: the server's time as its producer estimated it. */
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
    const { name, priority, maxAttempts, uniqueKey } = header;
    return { ...known, name, priority, maxAttempts, addedAt, uniqueKey };
  } catch {
    return { ...known, name: "", priority: 0, maxAttempts: 1, addedAt: 0, uniqueKey: undefined };
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

const letterOf = ({ id, diedAt, blob, record }: StoredLetter): DeadLetter => ({
  ...{ id, diedAt, data: dataOf(blob) },
  ...factsOf(blob, record),
});

/** The maximum number of letters that one call reads. */
const maxLetters = 50;

/** Where a page ended. */
type Position = Pick<DeadLetter, "id" | "diedAt">;

/**
 * Reads letters that died before `position`, newest first. Letters of the same time come in descending order of ids, as in the sorted set.
 */
export const readLetters = async (
  commands: QueueCommands,
  position: Position | undefined,
  count: number,
  name: string,
): Promise<DeadLetter[]> => {
  const found: DeadLetter[] = [];
  let last = position;
  // Each page starts with the letters of the time at which the previous page ended. There may be many.
  for (let [start, again] = [0, position ? 1 : 0]; ; again = 2 * again + 1) {
    const latest = last?.diedAt;
    const wanted = Math.min(maxLetters, count - found.length + again);
    const page = await commands.run(letters, { latest: latest ?? "+inf", start, name, count: wanted });
    for (const letter of page) {
      const isOlder = !last || letter.diedAt < last.diedAt;
      if (!isOlder && (letter.diedAt > last!.diedAt || compare(letter.id, last!.id) >= 0)) continue;
      last = letter;
      if (letter.blob.length > 0 && found.push(letterOf(letter)) === count) return found;
    }
    const end = page.at(-1);
    if (!end) return found;
    // Letters of one instant may fill a page.
    start = end.diedAt === latest ? start + page.length : 0;
  }
};

const compare = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));

/** Moves or drops the letters with these ids, or without ids all current ones. Resolves with their number. */
export const moveLetters = async (
  commands: QueueCommands,
  verb: "redrive" | "drop",
  ids: readonly string[] | undefined,
  spreadMs: number = 0,
): Promise<number> => {
  let total = 0;
  // Without ids, those that were dead at the first call: with jobs that die again this might never end.
  for (let start = 0, begun = ""; ; start += maxRedriven) {
    const some = ids?.slice(start, start + maxRedriven).join("\n");
    if (some === "") return total;
    const reply = await commands.run(redrive, { verb, ids: some ?? "", begun, spreadMs });
    total += reply.moved;
    ({ begun } = reply);
    if (!ids && reply.moved < maxRedriven) return total;
  }
};
